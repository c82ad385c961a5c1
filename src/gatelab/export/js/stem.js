// ---- The stem: convolutions over time, each followed by ReLU, that shorten sequences before the layers read them -------

/** One convolution. What lies beyond the ends of a sequence is zero; batch normalization is part of the weights. */
class Convolution {
  constructor(weights, number, { inputs, channels, width, stride }) {
    const all = decoded(weights, `stem.${number}.weight`, channels * inputs * width);
    const ofTap = (k) => Float32Array.from({ length: channels * inputs }, (_, i) => all[i * width + k]);
    const taps = Array.from({ length: width }, (_, k) => ofTap(k)); // (channels × inputs) each
    Object.assign(this, { inputs, channels, width, stride, bias: decoded(weights, `stem.${number}.bias`, channels) });
    this.products = taps.map((tap) => packed(inputs, [tap]));
    this.transposes = taps.map((tap) => packed(channels, [transposed(tap, inputs)]));
  }

  /** The number of steps that it makes of some. */
  shortened(steps) {
    return Math.ceil(steps / this.stride);
  }

  /** Call with each step of the output, each tap, and the step that it reads, which is one of the sequence. */
  each(steps, visit) {
    for (let t = 0; t < this.shortened(steps); t++)
      for (let k = 0; k < this.width; k++) {
        const read = t * this.stride + k - (this.width >> 1);
        if (read >= 0 && read < steps) visit(t, k, read);
      }
  }

  /** (steps × inputs) → (shortened steps × channels). */
  forward(values, steps) {
    const { inputs, channels, products } = this, output = new Float64Array(this.shortened(steps) * channels);
    for (let i = 0; i < output.length; i++) output[i] = this.bias[i % channels];
    this.each(steps, (t, k, read) => multiply(output, t * channels, products[k], values, read * inputs));
    return output.map(relu);
  }

  /** The adjoint of the values, from the output and its adjoint. */
  backward(output, adjoint, steps) {
    const { inputs, channels, transposes } = this, ofValues = new Float64Array(steps * inputs);
    const active = adjoint.map((each, i) => (output[i] > 0 ? each : 0));
    this.each(steps, (t, k, read) => multiply(ofValues, read * inputs, transposes[k], active, t * channels));
    return ofValues;
  }
}
