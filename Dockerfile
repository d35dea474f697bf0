# The image of the action, in two sizes: `full`, the default, has sentence-transformers on CPU
# torch and adds 1.04 GB to its base; `slim` (--target slim) leaves those out, adds 88 MB and
# compares everything but st: models. Both are tested to stay below 1.15 GB and 150 MB.
# Only what the classic builder knows: act uses it. The locks are for Python 3.11, which the paths
# name, too.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# What both images share, and no package yet.
FROM ${PYTHON_IMAGE} AS runtime
# The official image comes without bytecode of the standard library.
RUN python -m compileall -q -j 0 -x "/(site-packages|dist-packages|test|tests|idlelib|lib2to3)/" \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && mkdir -m 1777 /var/cache/embed-ab
# Outside of HOME, which the runner replaces, and writable for every --user. A volume mounted here
# keeps models and vectors from one run to the next.
ENV EMBED_AB_CACHE_DIR=/var/cache/embed-ab \
    HF_HOME=/var/cache/embed-ab/huggingface
WORKDIR /github/workspace
COPY entrypoint.py /opt/embed-ab/
# Ctrl-C and `docker stop` alike; Python as process 1 would ignore SIGTERM.
STOPSIGNAL SIGINT
# -I: neither PYTHON* variables of the workflow nor its folders choose what is imported.
ENTRYPOINT ["/opt/embed-ab/bin/python", "-I", "-u", "/opt/embed-ab/entrypoint.py"]
ARG SOURCE=""
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="embed-ab-action" \
      org.opencontainers.image.description="Compare two embedding models on your own documents and questions" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM ${PYTHON_IMAGE} AS slim-packages
RUN python -m venv --without-pip /opt/embed-ab
COPY requirements/slim.txt /requirements/
RUN pip --python /opt/embed-ab/bin/python install --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes -r /requirements/slim.txt \
    && find /opt/embed-ab/lib -type d \( -name test -o -name tests \) -prune -exec rm -r {} + \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/embed-ab/lib

# The package itself, in a tree of its own, so that a change of it leaves the large layers alone.
FROM slim-packages AS package
COPY requirements/build.txt /requirements/
RUN pip install --no-cache-dir --only-binary :all: --require-hashes -r /requirements/build.txt
COPY pyproject.toml README.md LICENSE /source/
COPY embed_ab /source/embed_ab
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /source \
    && pip --python /opt/embed-ab/bin/python install --no-cache-dir --no-compile --no-deps \
        --no-index --no-warn-script-location --root /package /wheels/*.whl \
    && python -m compileall -q -s /package -p / --invalidation-mode unchecked-hash /package

FROM runtime AS slim
COPY --from=slim-packages /opt/embed-ab /opt/embed-ab
COPY --from=package /package /

FROM slim-packages AS full-packages
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements/torch.txt requirements/full.txt /requirements/
# torch alone comes from its own index: what it needs is in the lock, from the usual one.
RUN pip --python /opt/embed-ab/bin/python install --no-cache-dir --no-compile --no-deps \
        --only-binary :all: --require-hashes --index-url "${TORCH_INDEX}" \
        -r /requirements/torch.txt \
    && cd /opt/embed-ab/lib/python3.11/site-packages/torch \
    && rm -r include share \
    && find bin -type f ! -name torch_shm_manager -delete
RUN pip --python /opt/embed-ab/bin/python install --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes -r /requirements/full.txt \
    && find /opt/embed-ab/lib -type d \( -name test -o -name tests \) -prune -exec rm -r {} + \
    && python -m compileall -q -j 0 -x /torch/testing/_internal/ \
        --invalidation-mode unchecked-hash /opt/embed-ab/lib

FROM runtime AS full
COPY --from=full-packages /opt/embed-ab /opt/embed-ab
COPY --from=package /package /
