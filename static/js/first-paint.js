// @ts-check
// Mark the page until its first paint, so that parts below the first screen (class="later") are laid out after it. This
// script is inside the page, so that they appear even if no other script loads. A link into the page needs all parts.
if (!location.hash) {
  const root = document.documentElement;
  const show = () => delete root.dataset.paint;
  root.dataset.paint = "first";
  new PerformanceObserver(show).observe({ type: "paint", buffered: true });
  // Not every browser reports the paint.
  requestAnimationFrame(() => setTimeout(show, 200));
}
