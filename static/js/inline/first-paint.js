// @ts-check
// Mark the page until its first frame with content, so that parts below the first screen (class="later") are laid out
// after it. This script is inside the page, so that they appear even if no other script loads. A link into the page
// needs all parts.
if (!location.hash) {
  const root = document.documentElement;
  root.dataset.paint = "first";
  // A timer of the frame's callback runs when the frame has been drawn. Frames before this event show no content.
  addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(() => delete root.dataset.paint)));
}
