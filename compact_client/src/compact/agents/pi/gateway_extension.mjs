// Point pi's providers at the gateway that `compactctl run pi` started.
export default function (pi) {
  for (const provider of ["anthropic", "openai", "google"]) {
    const baseUrl = process.env[`ARIADNE_PI_${provider.toUpperCase()}`];
    if (baseUrl) pi.registerProvider(provider, { baseUrl });
  }
}
