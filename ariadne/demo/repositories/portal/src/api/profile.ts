import useSWR, { mutate } from "swr";
import { request } from "./request";

export interface Profile {
  id: number;
  name: string;
  email: string;
  language: string;
  newsletter: boolean;
  shippingMails: boolean;
}

const PATH = "/api/profile";

// The profile is rendered into the page, so the first paint never waits for a request.
const initial: Profile = JSON.parse(document.getElementById("profile")!.textContent!);

export function useProfile(): Profile {
  const { data } = useSWR<Profile>(PATH, request, { fallbackData: initial, revalidateOnMount: false });
  return data!;
}

export async function saveProfile(profile: Profile): Promise<void> {
  const saved = await request<Profile>(PATH, { method: "PUT", body: JSON.stringify(profile) });
  await mutate(PATH, saved, { revalidate: false });
}
