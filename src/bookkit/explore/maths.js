// The formulas of the module, one function each. Matrices are arrays of rows.
const sum = (row) => row.reduce((total, x) => total + x, 0);
const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
const turn = (m) => m[0].map((_, j) => m.map((row) => row[j])); // transpose
const matmul = (a, b) => {
  const columns = turn(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
};
const mean = (rows) => turn(rows).map((column) => sum(column) / column.length);
const argmax = (row) => row.indexOf(Math.max(...row));

// Weights that sum to 1 where looking is allowed; zeros where nothing may be looked at.
function softmax(scores, mask) {
  const seen = scores.filter((_, i) => !mask || mask[i]);
  const top = Math.max(...seen);
  const powers = scores.map((s, i) => (!mask || mask[i] ? Math.exp(s - top) : 0));
  const total = sum(powers);
  return powers.map((power) => (total ? power / total : 0));
}
