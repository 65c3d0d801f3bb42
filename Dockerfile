# dtrain in an image: the launcher and the Python backend, on Debian 12. Not built by this project's CI.
#
#   docker build -t dtrain .                           an image to build on; docs/install.md shows one with torch
#   docker build --target wheel --output ci .          only the wheel, into the folder ci
#   docker run --rm dtrain run --nproc 2 true
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# A layer of its own, so that a change of the sources does not fetch the compilers again.
COPY scripts/setup.sh scripts/requirements-wheel.txt scripts/
RUN scripts/setup.sh wheel
COPY . .
RUN make wheel
RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-index build/wheel/dist/*.whl

FROM scratch AS wheel
COPY --from=build /src/build/wheel/dist/*.whl /

FROM debian:12-slim
# For jobs across hosts dtrain loads libssl3, for --numa-binding libhwloc15. `python` is for programs and for pip.
RUN apt-get update && apt-get install -y --no-install-recommends python3 libssl3 libhwloc15 \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --create-home --uid 1000 --shell /bin/bash dtrain
COPY --from=build --chown=dtrain:dtrain /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH VIRTUAL_ENV=/opt/venv
# By number: Kubernetes' runAsNonRoot asks for one.
USER 1000
WORKDIR /home/dtrain
# dtrain may be PID 1: it reaps orphans and hands on signals, so no tini is here (docs/supervision.md).
ENTRYPOINT ["dtrain"]
CMD ["--help"]
