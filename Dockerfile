# The web image: locked dependencies, no build tools, no root, nothing written outside /tmp and /data.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /venv
COPY requirements/runtime.txt requirements/runtime.txt
RUN /venv/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY compact_client compact_client
COPY ariadne ariadne
COPY ingest ingest
COPY viewer viewer
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation ./compact_client

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data ariadne && install -d -o ariadne -g ariadne -m 700 /data
WORKDIR /app
COPY --from=build /venv /venv
COPY manage.py ./
COPY ariadne ariadne
COPY ingest ingest
COPY viewer viewer
COPY templates templates
COPY static static
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 DATA_DIR=/data
USER ariadne
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["daphne", "--bind", "0.0.0.0", "--port", "8000", "--verbosity", "0", "--no-server-name", "ariadne.asgi:application"]
