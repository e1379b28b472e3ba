# Ottla in a container: `docker build --tag ottla .`, then `docker run --publish 9092:9092 ottla`.

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# Any version of the compiler will do.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /opt/source
COPY . .
RUN python -m venv /opt/ottla && \
    /opt/ottla/bin/python -m pip install --constraint constraints.txt '.[native]' && \
    /opt/ottla/bin/python -P -m ottla.build_native && \
    /opt/ottla/bin/python -m pip uninstall --yes mypy setuptools types-setuptools

FROM python:3.13-slim
RUN useradd --uid 1000 --user-group --no-create-home ottla && \
    mkdir /var/lib/ottla && \
    chown ottla:ottla /var/lib/ottla
COPY --from=build /opt/ottla /opt/ottla
ENV PATH=/opt/ottla/bin:$PATH \
    KAFKA_LISTENERS=PLAINTEXT://:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_LOG_DIRS=/var/lib/ottla
USER 1000:1000
WORKDIR /var/lib/ottla
VOLUME /var/lib/ottla
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-P", "-m", "ottla.commands.health_check"]
ENTRYPOINT ["ottla"]
CMD ["serve"]
