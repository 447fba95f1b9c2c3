import { useEffect } from "react";
import { BrowserRouter, Route, Routes } from "react-router";
import { useProfile } from "./api/profile";
import { OrdersPage } from "./orders";
import { SettingsPage } from "./settings";
import "./tokens.css";
import "./app.css";

export function App() {
  const profile = useProfile();

  useEffect(() => {
    document.documentElement.lang = profile.language;
  }, [profile.language]);

  return (
    <BrowserRouter>
      <Routes>
        <Route path="/" element={<OrdersPage />} />
        <Route path="/settings" element={<SettingsPage />} />
      </Routes>
    </BrowserRouter>
  );
}
