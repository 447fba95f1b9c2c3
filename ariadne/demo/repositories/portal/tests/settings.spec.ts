import { expect, test } from "@playwright/test";

test.use({ storageState: "tests/state/customer.json" });

test("a saved switch is still on after a reload", async ({ page }) => {
  await page.goto("/settings");
  await page.getByLabel("Newsletter").check();
  await expect(page.getByLabel("Newsletter")).toBeEnabled();
  await page.reload();
  await expect(page.getByLabel("Newsletter")).toBeChecked();
});

test("an error of the server is shown", async ({ page }) => {
  await page.route("**/api/profile", (route) => route.fulfill({ status: 503 }));
  await page.goto("/settings");
  await page.getByLabel("Newsletter").check();
  await expect(page.getByRole("alert")).toBeVisible();
});
