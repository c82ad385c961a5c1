# %% [markdown]
# # Classify sequences
#
# The classifier of `gatelab.sklearn` on real sequences: handwritten digits, read pixel by pixel (they come with
# scikit-learn). The cells of this file are separated by `# %%`: VS Code, PyCharm, Spyder and Jupytext run them one by
# one, and `python examples/classify.py` runs all of them in half a minute. Pictures are saved beside you as PNG files.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay, classification_report
from sklearn.model_selection import GridSearchCV, train_test_split

from gatelab.sklearn import RecurrentClassifier

images, labels = load_digits(return_X_y=True)  # 8 × 8 pixels in a row: (1797, 64), read as (1797, 64, 1)
X, X_test, y, y_test = train_test_split(images, labels, train_size=400, stratify=labels, random_state=0)
X_test, y_test = X_test[:500], y_test[:500]
print(X.shape, X_test.shape)

# %% [markdown]
# ## Fit and score
#
# Nothing needs to be set; 20 epochs instead of 60 make it quick. The same seed gives the same network.

# %%
model = RecurrentClassifier(max_epochs=20, random_state=0).fit(X, y)
linear = LogisticRegression(max_iter=5000).fit(X / 16, y)
print(
    f"recurrent network {model.score(X_test, y_test):.3f}, logistic regression {linear.score(X_test / 16, y_test):.3f}"
)
print(classification_report(y_test, model.predict(X_test), digits=3))

# %% [markdown]
# ## Where it is wrong
#
# The most confident mistakes say more than the accuracy: mislabelled data, classes that overlap, or a network that is
# too sure.

# %%
probability = model.predict_proba(X_test)
answer = model.classes_[probability.argmax(1)]
wrong = np.flatnonzero(answer != y_test)
worst = wrong[np.argsort(-probability[wrong].max(1))][:4]

figure = plt.figure(figsize=(10, 4.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.1))
axes = left.subplots()
ConfusionMatrixDisplay.from_predictions(y_test, answer, ax=axes, cmap="Blues", colorbar=False)
axes.set_title(f"{len(wrong)} of {len(y_test)} are wrong")
for axes, index in zip(right.subplots(2, 4).T, worst, strict=False):
    axes[0].imshow(X_test[index].reshape(8, 8), cmap="Greys")
    axes[0].set_title(f"a {y_test[index]}, read as {answer[index]}\nwith {probability[index].max():.0%}", fontsize=8)
    axes[0].set_axis_off()
    axes[1].plot(X_test[index], linewidth=0.8)
    axes[1].set(xlabel="step", yticks=[])
right.suptitle("Most confident mistakes: image and sequence")
figure.savefig("classify-mistakes.png", dpi=150)

# %% [markdown]
# ## Another cell, another size
#
# Every cell of the library is a parameter (`gatelab cells` lists them), and so is one of your own. This one is a GRU
# without a reset gate, in three lines; the fused kernel and its gradient are derived from the equations.

# %%
from gatelab import cell, sigmoid, tanh  # noqa: E402


@cell
def no_reset(x, h, W, U, b):
    """A GRU without a reset gate."""
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    n = tanh(W.n(x) + U.n(h) + b.n)
    return h + z * (n - h)


choices = {"cell": ["gru", no_reset], "stem": ["conv", "none"]}
quick = RecurrentClassifier(max_epochs=6, hidden_size=32, random_state=0)
search = GridSearchCV(quick, choices, cv=2).fit(X, y)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{getattr(setting['cell'], 'name', setting['cell']):10} stem={setting['stem']:6} {score:.3f}")

# %% [markdown]
# ## Keep it
#
# What is saved is a run directory: weights and JSON, nothing executable. `gatelab predict digits-model NEW.npz` and
# `gatelab verify digits-model` read it, and so does `RecurrentClassifier.load`.

# %%
model.save("digits-model")
again = RecurrentClassifier.load("digits-model")
assert (again.predict(X_test) == answer).all()
