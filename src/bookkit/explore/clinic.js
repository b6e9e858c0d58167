// Nine training runs without their names: look at the instruments and say the fault.
const SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LETTERS = "ABCDEFGHI";
const WIDTH = 150;
// The three losses are what one looks at first.
const heightOf = (n) => (n < 3 ? 96 : 48);

class Clinic extends Explorable {
  static limits = { patient: [0, 8] };

  lines(patient, seed) {
    const [text] = this.numbers.runs[seed][patient];
    const { names } = this.numbers;
    const each = text.length / names.length;
    const level = (sign) => SIGNS.indexOf(sign) / 63;
    return names.map((_, n) => [...text.slice(n * each, (n + 1) * each)].map(level));
  }

  compute({ patient, seed, guess }) {
    const open = { none: "open", tell: "told", [this.numbers.patients[patient]]: "right" };
    return {
      lines: this.lines(patient, seed),
      ends: this.numbers.runs[seed][patient][1],
      verdict: open[guess] ?? "wrong",
    };
  }

  build() {
    const { names, marks, answers } = this.numbers;
    this.panels = names.map((name, n) => {
      const parts = { numbers: html("span", { class: "ends" }), box: html("div", {}) };
      parts.healthy = svg("path", { class: "pale" });
      parts.own = svg("path", { class: "own" });
      const y = heightOf(n) * (1 - marks[n]);
      const mark = svg("path", { d: `M0 ${y}H${WIDTH}`, class: "hair" });
      if (marks[n]) set(mark, { "stroke-dasharray": "3 3" });
      parts.plot = svg("svg", { viewBox: `-2 -2 ${WIDTH + 4} ${heightOf(n) + 4}`, role: "img" });
      parts.plot.append(mark, parts.healthy, parts.own);
      parts.box.append(html("b", { text: name }), parts.numbers, parts.plot);
      return parts;
    });
    const boxes = this.panels.map(({ box }) => box);
    const ours = html("b", { class: "tint gradient", text: "This patient" });
    boxes.unshift(html("p", { class: "hint" }, ours, ", beside the healthy run; dashed ln 94, 1, 1/1000"));
    const room = html("div", { class: "room" }, html("div", { class: "board" }, ...boxes));
    this.picture.append(room);
    const beds = [...LETTERS].map((letter, n) => [n, letter]);
    this.choice("patient", "patient", beds, (patient) => ({ patient, guess: "none" }));
    const next = () => ({ patient: (this.state.patient + 1) % beds.length, guess: "none" });
    this.button("Next patient", () => this.set(next()));
    const seeds = this.numbers.runs.map((_, seed) => [seed, String(seed)]);
    this.choice("seed", "seed", seeds);
    const said = [["none", "not yet"], ...Object.entries(answers), ["tell", "tell me"]];
    room.append(set(this.choice("guess", "your diagnosis", said), { class: "answers" }));
  }

  path(line, height) {
    const at = (y, i) => [(WIDTH * i) / (line.length - 1), height * (1 - y)];
    return `M${line.map((y, i) => at(y, i).map((x) => x.toFixed(1)).join(" ")).join("L")}`;
  }

  // Where to look, once something has been said that is not right.
  telling() {
    return this.numbers.told[this.numbers.patients[this.state.patient]];
  }

  draw({ lines, ends, verdict }) {
    const { names, patients } = this.numbers;
    const healthy = this.lines(patients.indexOf("healthy"), this.state.seed);
    const [look] = this.telling() ?? [-1];
    this.panels.forEach(({ box, numbers, plot, own, healthy: pale }, n) => {
      const hidden = n === names.length - 1 && verdict === "open";
      const words = hidden ? "after your guess" : ends[n].join(" → ");
      set(box, { class: n === look && verdict !== "open" ? "panel look" : "panel" });
      set(numbers, { text: words });
      set(plot, { "aria-label": `${names[n]}: ${words}` });
      set(own, { d: hidden ? "" : this.path(lines[n], heightOf(n)) });
      set(pale, { d: hidden ? "" : this.path(healthy[n], heightOf(n)) });
    });
  }

  tell({ ends, verdict }) {
    const { patients, titles, names, runs } = this.numbers;
    const { patient, seed, guess } = this.state;
    const who = `Patient ${LETTERS[patient]}`;
    const name = patients[patient];
    const [look, sign] = this.telling() ?? [1, "All instruments are where they should be."];
    if (verdict === "open") {
      const well = runs[seed][patients.indexOf("healthy")][1][1][1];
      const both = `held-out loss of ${ends[1][1]} nats, the healthy run at ${well}`;
      return `${who} ends at a ${both}. What is it?`;
    }
    if (verdict === "wrong")
      return `${who}, “${titles[guess]}”: no. Look at the panel “${names[look]}”.`;
    return `${verdict === "right" ? "Right" : who}: ${titles[name]}. ${sign}`;
  }

  static style = `
    .room { display: grid; grid-template-columns: 1fr 10.5rem; gap: 16px }
    .board { display: grid; grid-template-columns: repeat(3, 1fr); gap: 4px 10px }
    .answers { font-size: 14px } .answers > span { font-weight: 650 }
    .answers .set { display: flex; flex-direction: column; margin-top: 6px }
    .answers .set span { justify-content: flex-start; min-height: 32px }
    .panel { display: flex; flex-direction: column; padding: 4px 5px;
      border-radius: 8px; line-height: 1.3; font-size: 13px; border: 2px solid transparent }
    .look { border-color: var(--d-ink) }
    .panel b { display: block; font-weight: 650 }
    .ends { color: var(--d-muted); font-size: 13px }
    .ends { white-space: nowrap }
    .panel svg { margin-top: auto; padding-top: 4px }
    .own, .pale { fill: none; stroke: var(--d-gradient); stroke-width: 2.4 }
    .pale { stroke: var(--d-muted); stroke-width: 1.4 }
    .hair { fill: none; stroke: var(--d-line) }
    .hint { padding: 0 5px; grid-column: 1 / -1 }
    @container (max-width: 620px) {
      .room { grid-template-columns: 1fr; gap: 8px }
      .answers .set { flex-flow: row wrap }
    }
    @container (max-width: 480px) {
      .board { gap: 2px 4px }
      .panel, .ends { font-size: 12px; line-height: 1.2 }
      .hint { padding: 0 } .ends { white-space: normal }
      .controls { gap: 3px 12px }
      .control { gap: 2px 8px }
      .set span { padding: 0 8px }
      .say { margin: 4px 0 }
    }`;
}

define("attn-clinic", Clinic);
