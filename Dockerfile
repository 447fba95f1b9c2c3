# The server image: locked dependencies, no build tools, not root, writes only to /tmp and /data.
# The same image migrates (`python manage.py setup`, once) and serves (the default command).
FROM python:3.12.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /venv
COPY requirements/runtime.txt requirements/runtime.txt
RUN /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements/runtime.txt
COPY compact_client compact_client
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation ./compact_client

FROM node:24.11.1-bookworm-slim AS pages
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tools/bundle.mjs tools/bundle.mjs
COPY static static
RUN node tools/bundle.mjs static build/static

FROM python:3.12.11-slim-bookworm
RUN useradd --system --uid 10001 --user-group --home-dir /data --shell /usr/sbin/nologin ariadne \
 && install -d -o ariadne -g ariadne -m 700 /data
WORKDIR /app
COPY --from=build /venv /venv
COPY manage.py ./
COPY ariadne ariadne
COPY ingest ingest
COPY viewer viewer
COPY templates templates
COPY --from=pages /src/build/static static
# The root is read-only at run time. Without this, every start and every health check would compile again.
RUN python -m compileall -q .
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 DATA_DIR=/data
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 CMD ["python", "-m", "ariadne.runtime.health_check"]
CMD ["python", "-m", "ariadne.runtime.web_process", "--bind", "0.0.0.0:8000"]
