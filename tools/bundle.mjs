// Bundle the pages for the wheel and the image: `node tools/bundle.mjs static build/static`.
// The script and the stylesheet of a page keep their names, so the server treats modules and bundles in the same way.
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const [source, target] = process.argv.slice(2);

await rm(target, { recursive: true, force: true });
for (const part of ["fonts", "icon.svg", join("js", "inline")]) await cp(join(source, part), join(target, part), { recursive: true });
await build({
  entryPoints: [join(source, "js", "pages", "*.js"), join(source, "css", "pages", "*.css")],
  outdir: target,
  outbase: source,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  sourcemap: true,
  // The pages also load the font on their own, by this name.
  loader: { ".woff2": "file" },
  assetNames: "fonts/[name]",
  logLevel: "warning",
});
