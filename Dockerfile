# syntax=docker/dockerfile:1
# Two stages: what is needed to install stays behind.
FROM python:3.12.11-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/shadow
COPY docker/requirements.lock ./
RUN /opt/shadow/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY shadow shadow
COPY collector collector
COPY analysis analysis
COPY grafana grafana
RUN /opt/shadow/bin/pip install --no-deps .

FROM python:3.12.11-slim-bookworm
COPY --from=build /opt/shadow /opt/shadow
RUN useradd --system --uid 10001 --home-dir /data shadow \
 && install --directory --owner shadow --group shadow /data /etc/shadow-compare
ENV PATH=/opt/shadow/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
# 8080 clients, 9090 reports, health and metrics of 9091 proxy, 9092 collector, 9093 analysis
EXPOSE 8080 9090 9091 9092 9093
ENTRYPOINT ["shadow"]
CMD ["up", "-c", "/etc/shadow-compare/shadow.yaml"]
