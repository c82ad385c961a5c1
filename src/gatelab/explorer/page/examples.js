// ---- Examples: test examples in the page, predicted rightly and wrongly ---------------------------------------------

/** How well the first network predicts the classes of an example, in words. */
function markOf(example) {
  const { x, target } = task.examples[example], ran = networks[0].run(x);
  if (!task.perStep) return largestOf(ran.answer) === target[0] ? "right" : "wrong";
  const scored = target.map((each, t) => [each, t]).filter(([, t]) => isScored(t, target.length));
  const right = scored.filter(([each, t]) => largestOf(answerAt(ran, 0, t)) === each);
  return right.length === scored.length ? "right" : `${Math.floor((100 * right.length) / scored.length)} % right`;
}

/** Buttons and a list to choose an example; the list says which are right once they have been run. */
function makeExamples(parent) {
  const select = element("select", { "aria-label": "test example", onchange: () => load(Number(select.value)) });
  const move = (by) => load((situation.example + by + task.examples.length) % task.examples.length);
  const options = task.examples.map((example, i) => {
    const target = task.classes && !task.perStep ? `: ${visible(task.classes[example.target[0]])}` : "";
    return element("option", { value: i }, `${example.name}${target}`);
  });
  select.append(...options);
  parent.append(select);
  if (options.length > 1) {
    parent.prepend(button("‹", () => move(-1), "previous example"));
    parent.append(button("›", () => move(1), "next example"));
  }
  const own = element("option", { value: "own" }, "your own input"); // so that the example can be chosen again
  when("example isOwn", () => {
    if (situation.isOwn) select.prepend(own);
    else own.remove();
    select.value = situation.isOwn ? "own" : situation.example;
  });
  let next = 0;
  const mark = () => {
    options[next].textContent += ` – ${markOf(next)}`;
    next += 1;
    if (next < options.length) setTimeout(mark, 5);
  };
  if (task.classes) setTimeout(mark, 400);
}
