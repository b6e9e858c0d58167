// Scales and their marks: x to the right, y upwards, either may be logarithmic.
const raised = (p) =>
  String(p)
    .replace("-", "⁻")
    .replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);

// 0.02, 31.4, 5 · 10⁻⁷: a number of any size.
function size(x) {
  if (Math.abs(x) < 1e-12) return "0";
  if (Math.abs(x) >= 0.01 && Math.abs(x) < 1000) return say(x);
  const [digit, p] = x.toExponential(0).split("e");
  return `${digit === "1" ? "" : `${digit} · `}10${raised(Number(p))}`;
}

const linear = (low, high, from, to) => (x) => from + ((to - from) * (x - low)) / (high - low);

// Powers of ten between two exponents, at most `most` of them.
function decades(low, high, most = 7) {
  const [first, last] = [Math.ceil(low - 1e-9), Math.floor(high + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / (most - 1)));
  const powers = [];
  for (let p = Math.ceil(first / step) * step; p <= last; p += step) powers.push(p);
  return powers;
}

const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
