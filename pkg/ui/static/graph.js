// A graph over time, drawn by uPlot on a canvas, with what it shows in words.

import { Component, createRef, h } from "./vendor/preact.mjs";
import { columns, told } from "./series.js";
import { clock } from "./words.js";

// steps are the whole numbers that lines of a graph may be apart.
const steps = Array.from({ length: 10 }, (_, n) => [1, 2, 5].map((m) => m * 10 ** n)).flat();

const height = 160;
const least = 60; // seconds that are shown at least
const dark = matchMedia("(prefers-color-scheme: dark)");

// ink is a colour of theme.css, as it is now.
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
const time = (seconds) => clock(1000 * seconds).slice(11);

// Graph shows one value of samples (series.js): name is which, whole that it is a number of things, shown what it is for people.
export class Graph extends Component {
  canvas = createRef();

  componentDidMount() {
    const place = this.canvas.current;
    const axis = { stroke: () => ink("--dim"), grid: { stroke: () => ink("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.plot = new globalThis.uPlot({
      width: place.clientWidth, height, legend: { show: false }, padding: [8, 12, 0, 0],
      cursor: { y: false, drag: { x: false, y: false } },
      scales: {
        x: { range: (_, from, to) => [Math.min(from, to - least), to] },
        y: { range: (_, __, most) => [0, Math.max(1, 1.1 * most)] },
      },
      axes: [
        { ...axis, space: 80, size: 26, values: (_, at) => at.map(time) },
        { ...axis, space: 32, size: 44, incrs: this.props.whole ? steps : undefined },
      ],
      series: [{}, { stroke: () => ink("--accent"), width: 2, points: { show: false } }],
      hooks: { setCursor: [(u) => { this.setState({ at: u.cursor.idx }); }] },
    }, this.data(), place);
    this.again = () => this.plot.redraw();
    dark.addEventListener("change", this.again);
    this.fit = new ResizeObserver(() => this.plot.setSize({ width: place.clientWidth, height }));
    this.fit.observe(place);
  }

  componentDidUpdate(before) {
    if (before.samples !== this.props.samples) this.plot.setData(this.data());
  }

  componentWillUnmount() {
    dark.removeEventListener("change", this.again);
    this.fit.disconnect();
    this.plot.destroy();
  }

  data() { return columns(this.props.samples, this.props.name); }

  render({ samples, name, label, shown }, { at }) {
    const words = told(samples, name, shown), under = samples[at];
    return h("figure", { class: "graph" },
      h("div", { class: "canvas", ref: this.canvas, role: "img", "aria-label": `${label}: ${words}` }),
      h("figcaption", { class: "dim" }, under && (under[name] ?? null) !== null ? `${shown(under[name])} at ${time(under.at / 1000)}` : words));
  }
}
