# Two turns with curl, streamed. The second one repeats the first with its answer.
set -e
ask() {
  curl --silent --show-error --no-buffer "$ANTHROPIC_BASE_URL/v1/messages" \
    -H "content-type: application/json" -H "x-api-key: $ANTHROPIC_API_KEY" -H "anthropic-version: 2023-06-01" \
    -d "{\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 100, \"stream\": true, \"system\": \"You are brief.\", \"messages\": [$1]}"
}
first='{"role": "user", "content": "Say hello."}'
ask "$first"
ask "$first, {\"role\": \"assistant\", \"content\": \"All done.\"}, {\"role\": \"user\", \"content\": \"And again.\"}"
