// @ts-check
// The menus of the list (`details.pop`): one is open at a time. Escape, a click elsewhere and moving the focus close it.

/** @param {HTMLElement} list */
export function closeMenusOnLeave(list) {
  /** @param {Event} event */
  const closeOthers = (event) => {
    for (const menu of openMenus(list)) if (!menu.contains(/** @type {Node | null} */ (event.target))) menu.open = false;
  };
  document.addEventListener("pointerdown", closeOthers);
  document.addEventListener("focusin", closeOthers);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of openMenus(list)) {
      menu.open = false;
      menu.querySelector("summary")?.focus();
    }
  });
}

/** @param {HTMLElement} list */
function openMenus(list) {
  return /** @type {NodeListOf<HTMLDetailsElement>} */ (list.querySelectorAll("details.pop[open]"));
}
