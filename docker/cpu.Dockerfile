# Agon on a CPU: the light install, with what the demo, evaluation and reports need.
# CI lints this file (tests/architecture/test_docker.py) and does not build it. From the root of a clone:
#   docker build -f docker/cpu.Dockerfile -t agon:cpu .
#   docker run --rm -v "$PWD/runs:/home/agon/runs" agon:cpu demo
FROM python:3.11.13-slim-bookworm

# git names the revision in a run's manifest; bubblewrap is for the sandbox, which also needs --privileged or a rootless runtime
RUN apt-get update \
    && apt-get install -y --no-install-recommends git bubblewrap libseccomp2 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home agon

WORKDIR /opt/agon
COPY constraints/cpu.txt constraints/cpu.txt
# torch goes first and from PyTorch's CPU index: the default wheel brings gigabytes of CUDA
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints/cpu.txt)"

COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN grep -v '^vllm' constraints/cpu.txt > without-vllm.txt \
    && pip install --no-cache-dir -c without-vllm.txt '.[train,data,eval,plot,sandbox,push]'

USER agon
WORKDIR /home/agon
ENV HF_HUB_DISABLE_TELEMETRY=1
ENTRYPOINT ["agon"]
CMD ["--help"]
