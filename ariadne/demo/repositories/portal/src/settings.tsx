import { useState } from "react";
import { saveProfile, useProfile } from "./api/profile";
import { Switch } from "./ui/switch";

export function SettingsPage() {
  const profile = useProfile();
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState<string | null>(null);

  async function change(changes: Partial<typeof profile>) {
    setSaving(true);
    setError(null);
    try {
      await saveProfile({ ...profile, ...changes });
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setSaving(false);
    }
  }

  return (
    <main className="settings">
      <h1>Settings</h1>
      {error && <p role="alert">{error}</p>}
      <section>
        <h2>Notifications</h2>
        <Switch
          label="Send me an e-mail when an order ships"
          checked={profile.shippingMails}
          disabled={saving}
          onChange={(shippingMails) => change({ shippingMails })}
        />
        <Switch
          label="Newsletter"
          checked={profile.newsletter}
          disabled={saving}
          onChange={(newsletter) => change({ newsletter })}
        />
      </section>
      <section>
        <h2>Language</h2>
        <select value={profile.language} onChange={(event) => change({ language: event.target.value })}>
          <option value="en">English</option>
          <option value="pt">Português</option>
          <option value="de">Deutsch</option>
        </select>
      </section>
    </main>
  );
}
