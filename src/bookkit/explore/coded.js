// Reads what `coded.py` wrote: next(context) gives the next number.
function coded(letters, bits, contexts) {
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const odds = new Uint16Array(contexts << bits).fill(2048);
  let [at, range, code] = [0, 2 ** 32 - 1, 0];
  const more = () => (code = code * 256 + (bytes[at++] ?? 0));
  for (let n = 0; n < 4; n++) more();
  const bit = (place) => {
    const bound = Math.floor(range / 4096) * odds[place];
    const one = code >= bound;
    if (one) {
      [code, range] = [code - bound, range - bound];
      odds[place] -= odds[place] >> 4;
    } else {
      range = bound;
      odds[place] += (4096 - odds[place]) >> 4;
    }
    for (; range < 2 ** 24; range *= 256) more();
    return Number(one);
  };
  return (context) => {
    let node = 1;
    while (node >> bits === 0) node = 2 * node + bit((context << bits) + node);
    return node - (1 << bits);
  };
}
