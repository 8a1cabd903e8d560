# Two static programs on a base image without a shell: weir, the limiter, and weir-operator. For another base image use --build-arg BASE=…, for another Go image
# --build-arg BUILDER=….
ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static:nonroot

FROM --platform=${BUILDPLATFORM} ${BUILDER} AS build
WORKDIR /src
# Modules change rarely, so they have their own layer.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X github.com/weir-dev/weir/cmd/internal/cli.version=${VERSION}" -o /out/ ./cmd/weir ./cmd/weir-operator
# Envoy Gateway starts its rate limit service as /bin/ratelimit.
RUN mkdir /out/bin && ln -s /weir /out/bin/ratelimit

FROM ${BASE}
COPY --from=build /out/weir /out/weir-operator /
COPY --from=build /out/bin/ /bin/
# The user nonroot of distroless, as a number: runAsNonRoot cannot verify a name.
USER 65532:65532
ENTRYPOINT ["/weir"]
