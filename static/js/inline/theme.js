// @ts-check
// Apply the saved theme. Loaded as a blocking script so that the page never flashes in the wrong theme.
{
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
