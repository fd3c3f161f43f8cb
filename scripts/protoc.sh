#!/bin/sh
# Makes the Go code of the protocols that Berth speaks with plugins, from their .proto files. It needs the Debian
# package protobuf-compiler; what it makes is committed, so that nobody else does.
set -eu
cd "$(dirname "$0")/../pluginproto"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PATH=$bin:$PATH protoc --go_out=. --go_opt=module=berth/pluginproto \
	--go-grpc_out=. --go-grpc_opt=module=berth/pluginproto \
	hclspecpb/hclspec.proto structspb/structs.proto basepb/base.proto driverpb/driver.proto \
	devicepb/device.proto
