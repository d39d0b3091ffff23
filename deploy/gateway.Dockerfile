# The gateway: no torch, no GPU. Build from the root of the repository: docker build -f deploy/gateway.Dockerfile -t agon-gateway .
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY src src
COPY configs configs
RUN pip install --no-cache-dir '.[serve,eval]' && useradd --create-home agon
USER agon
EXPOSE 8000
ENTRYPOINT ["agon", "serve"]
