package pluginhost

import (
	"context"
	"errors"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"berth/internal/base/fault"
)

// dataField is the member "data" of go-plugin's StdioData, the bytes that a plugin has printed.
const dataField = 2

// prints takes what a plugin prints once it serves: go-plugin has its standard output and error lead to pipes then,
// which it hands over by a service of its own. A plugin whose pipes nobody reads stands still when they are full. It
// goes to where the plugin's words are read; a plugin without the service writes there itself.
func (h *Host) prints(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err == nil {
		err = stream.SendMsg(&emptypb.Empty{})
	}
	if err != nil || stream.CloseSend() != nil {
		return nil // it is gone, which the others notice
	}
	f, err := os.OpenFile(h.cfg.stderrPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "keep what is printed by", h.Subject())
	}
	for err == nil {
		var m emptypb.Empty // its members are those that it does not know
		if stream.RecvMsg(&m) != nil {
			break // its end, or it has no such service
		}
		_, err = f.Write(printed(m.ProtoReflect().GetUnknown()))
	}
	return errors.Join(fault.Wrap(err, fault.Internal, "keep what is printed by", h.Subject()), f.Close())
}

// printed is the data of an encoded StdioData.
func printed(b []byte) (data []byte) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return data
		}
		b = b[n:]
		if number == dataField && kind == protowire.BytesType {
			if v, n := protowire.ConsumeBytes(b); n >= 0 {
				data = append(data, v...)
			}
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return data
		}
		b = b[n:]
	}
	return data
}
