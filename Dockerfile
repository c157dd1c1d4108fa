# The node as an image: the program, certificates, nothing else. Engines are not in it; they run beside it, see docs/container.md.
#
#   make appliance-image                 from bin/viiwork, without any base image (target prebuilt)
#   docker build -t viiwork .            from the sources, in Go's image
#
# The program itself is the same at each build of one version with one Go; the image's own digest is not, since Docker
# writes down when it was made.

FROM scratch AS prebuilt
COPY bin/viiwork /usr/bin/viiwork
COPY bin/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
ENV PATH=/usr/bin
ENTRYPOINT ["/usr/bin/viiwork"]
CMD ["serve"]

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -tags ts_omit_peerapiserver -ldflags "-s -w -X main.version=$VERSION" -o /viiwork ./appliance/viiwork

FROM scratch
COPY --from=build /viiwork /usr/bin/viiwork
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
ENV PATH=/usr/bin
ENTRYPOINT ["/usr/bin/viiwork"]
CMD ["serve"]
