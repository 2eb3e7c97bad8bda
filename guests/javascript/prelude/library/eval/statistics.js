// Figures over the scores of all cases.
import { max, min, sqrt } from "../language.js";

// Student's t, two-sided 95 %, by degrees of freedom; between these it is interpolated.
const T = [
  [1, 12.706], [2, 4.303], [3, 3.182], [4, 2.776], [5, 2.571], [6, 2.447], [7, 2.365], [8, 2.306], [9, 2.262], [10, 2.228],
  [12, 2.179], [15, 2.131], [20, 2.086], [25, 2.06], [30, 2.042], [40, 2.021], [60, 2.0], [120, 1.98],
];
const T_FOR_MANY = 1.96;

function critical(freedom) {
  for (let i = 0; i < T.length; i++) {
    const [at, value] = T[i];
    if (at === freedom) return value;
    if (at < freedom) continue;
    const [before, earlier] = T[i - 1];
    return earlier + ((value - earlier) * (freedom - before)) / (at - before);
  }
  return T_FOR_MANY;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

export function describe(scores) {
  const n = scores.length;
  if (!n) return { n, mean: 0, std_dev: 0, min: 0, max: 0, median: 0 };
  const mean = sum(scores) / n;
  const std_dev = n < 2 ? 0 : sqrt(sum(scores.map((score) => (score - mean) ** 2)) / (n - 1));
  const sorted = [...scores].sort((a, b) => a - b);
  const median = n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  return { n, mean, std_dev, min: sorted[0], max: sorted[n - 1], median };
}

export function interval({ n, mean, std_dev }) {
  const reach = n < 2 ? 0 : (critical(n - 1) * std_dev) / sqrt(n);
  return { lower: max(0, mean - reach), upper: min(1, mean + reach) };
}

// How likely at least one of k drawn cases passed.
export function passAt(k, passed, total) {
  let none = 1;
  for (let i = 0; i < k; i++) none *= max(0, total - passed - i) / (total - i);
  return 1 - none;
}
