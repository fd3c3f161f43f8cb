package wire

import (
	"context"
	"encoding/base64"
	"errors"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
)

var mapType = reflect.TypeFor[map[string]any]()

// wireFault is how a fault crosses the hop: CBOR in the status message, so that kind, subject and hint survive.
type wireFault struct {
	Kind    fault.Kind
	Op      string
	Subject string
	Hint    string
	Text    string // of the cause
}

const faultPrefix = "berth-fault:"

func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && !isFault(err) {
		return err
	}
	f := wireFault{Kind: fault.KindOf(err), Text: err.Error()}
	var top *fault.Error
	if errors.As(err, &top) && error(top) == err { //nolint:errorlint // the outermost alone has its parts on the wire
		f.Op = top.Op
		f.Subject = top.Subject
		f.Hint = top.Hint
		f.Text = ""
		if top.Err != nil {
			f.Text = top.Err.Error()
		}
	}
	data, encErr := Encode(f)
	if encErr != nil {
		return status.Error(codes.Internal, err.Error())
	}
	// A status message travels as text: bytes that are no UTF-8 would be replaced on the way.
	return status.Error(codes.Code(f.Kind.GRPC()), faultPrefix+base64.RawStdEncoding.EncodeToString(data))
}

func isFault(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}

// fromStatus turns what gRPC returned back into a fault.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	kind := fault.FromGRPC(fault.Code(st.Code()))
	msg := st.Message()
	if len(msg) > len(faultPrefix) && msg[:len(faultPrefix)] == faultPrefix {
		var f wireFault
		data, err := base64.RawStdEncoding.DecodeString(msg[len(faultPrefix):])
		if err == nil && Decode(data, &f) == nil {
			out := &fault.Error{Kind: f.Kind, Op: f.Op, Subject: f.Subject, Hint: f.Hint}
			if f.Text != "" {
				out.Err = errors.New(f.Text)
			}
			return out
		}
	}
	switch st.Code() {
	case codes.Canceled:
		return fault.Wrap(context.Canceled, fault.Canceled, "", "")
	case codes.DeadlineExceeded:
		return fault.Wrap(context.DeadlineExceeded, fault.Timeout, "", "")
	}
	return &fault.Error{Kind: kind, Err: errors.New(msg)}
}
