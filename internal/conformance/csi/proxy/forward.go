package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"berth/internal/port/csi"
)

// frame is a message as it came over the wire; what passes through is not touched.
type frame struct{ data []byte }

// rawCodec hands bytes through. It names itself proto, for that is what is in them.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("the proxy cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("the proxy cannot receive a %T", v)
	}
	f.data = slices.Clone(data.Materialize())
	return nil
}

// passage is one call on its way through the proxy.
type passage struct {
	plugin  *pluginRun
	full    string
	method  protoreflect.MethodDescriptor
	request proto.Message
	in, out *frame
	begin   Entry
	end     Entry
}

// handle takes any unary call: record, act by the rules, forward, record, answer.
func (l *pluginRun) handle(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	x := &passage{
		plugin: l,
		full:   full,
		method: method(full),
		in:     &frame{},
		out:    &frame{},
	}
	if err := stream.RecvMsg(x.in); err != nil {
		return err
	}
	x.open()
	if err := l.p.rec.write(x.begin); err != nil {
		return status.Error(codes.Internal, "the proxy cannot write its record")
	}
	err := x.run(stream.Context())
	x.end.Code, x.end.Message = status.Code(err).String(), ""
	if err != nil {
		x.end.Message = status.Convert(err).Message()
	} else if x.method != nil {
		x.end.Answer = jsonOf(decode(x.method.Output(), x.out.data))
	}
	if writing := l.p.rec.write(x.end); writing != nil {
		return status.Error(codes.Internal, "the proxy cannot write its record")
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(x.out)
}

// open fills the entries of the call.
func (x *passage) open() {
	p := x.plugin.p
	x.begin = Entry{
		Kind:   CallBegins,
		Proxy:  p.cfg.Name,
		Run:    x.plugin.number,
		Plugin: p.cfg.Plugin,
		Call:   x.plugin.call(),
		RPC:    x.full[strings.LastIndexByte(x.full, '/')+1:],
	}
	if x.method != nil {
		x.request = decode(x.method.Input(), x.in.data)
		x.begin.describe(x.request)
	}
	if x.begin.Node == "" && strings.HasPrefix(x.full, "/csi.v1.Node/") {
		x.begin.Node = x.plugin.node
	}
	x.end = x.begin
	x.end.Kind = CallEnds
	x.end.Request = nil
	x.end.Fields = nil
	if p.cfg.Witness != nil && csi.RPC(x.begin.RPC).Mutating() {
		x.begin.Seen = p.cfg.Witness(x.begin)
	}
}

// run acts by the rules around the forwarded call.
func (x *passage) run(ctx context.Context) error {
	rules, err := x.plugin.p.rules.pick(x.begin.RPC, x.begin.Volume)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	for _, r := range rules {
		if done, err := x.before(ctx, r); done || err != nil {
			return err
		}
	}
	for _, r := range rules {
		if r.Action == ActMountTmpfs && x.begin.RPC == "NodeUnpublishVolume" {
			if err := unmountAll(x.begin.Target); err != nil {
				return status.Error(codes.Internal, err.Error())
			}
		}
	}
	if err := x.forward(ctx); err != nil {
		return err
	}
	x.remember()
	for _, r := range rules {
		if err := x.after(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// before does what a rule says ahead of the plugin; done means that the plugin is not reached.
func (x *passage) before(ctx context.Context, r Rule) (done bool, err error) {
	switch r.Action {
	case ActDelay:
		x.end.Injected = r.String()
		select {
		case <-time.After(r.Delay):
			return false, nil
		case <-ctx.Done():
			return true, status.FromContextError(ctx.Err()).Err()
		}
	case ActHold:
		x.end.Injected = r.String()
		return x.hold(ctx, r)
	case ActLoseMounts:
		x.end.Injected = r.String()
		if err := x.plugin.loseMounts(); err != nil {
			return true, status.Error(codes.Internal, err.Error())
		}
	case ActHang:
		return true, x.hang(ctx, r)
	case ActBefore:
		x.end.Injected = r.String()
		return true, status.Error(r.Code, "injected by the proxy: "+r.String())
	case ActOK:
		x.end.Injected = r.String()
		return true, nil
	case ActCrash:
		return true, x.crash(ctx, r)
	case ActDrop:
		return true, x.dropped(ctx, r)
	}
	return false, nil
}

// after does what a rule says once the plugin has answered OK.
func (x *passage) after(ctx context.Context, r Rule) error {
	switch r.Action {
	case ActAfter:
		x.end.Injected = r.String()
		return status.Error(r.Code, "injected by the proxy: "+r.String())
	case ActHangAfter:
		return x.hang(ctx, r)
	case ActCrashAfter:
		return x.crash(ctx, r)
	case ActMountTmpfs:
		if err := x.mountTmpfs(); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	case ActFlip:
		if x.method == nil {
			return nil
		}
		m := decode(x.method.Output(), x.out.data)
		if m == nil || !flip(m, r.Cap) {
			return nil
		}
		b, err := proto.Marshal(m)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		x.out.data, x.end.Injected = b, r.String()
	}
	return nil
}

// hold waits until the rule is taken away; done means that the caller went first.
func (x *passage) hold(ctx context.Context, r Rule) (done bool, err error) {
	for {
		there, err := x.plugin.p.rules.has(r)
		switch {
		case err != nil:
			return true, status.Error(codes.Internal, err.Error())
		case !there:
			return false, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return true, status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (x *passage) hang(ctx context.Context, r Rule) error {
	x.end.Injected = r.String()
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// crash kills the plugin; the call is broken off when the run winds up.
func (x *passage) crash(ctx context.Context, r Rule) error {
	x.end.Injected = r.String()
	x.plugin.p.setRun(nil)
	x.plugin.kill(errCrashed)
	<-ctx.Done()
	return status.Error(codes.Unavailable, "the plugin was killed by "+r.String())
}

func (x *passage) dropped(ctx context.Context, r Rule) error {
	x.end.Injected = r.String()
	x.plugin.dropSocket()
	<-ctx.Done()
	return status.Error(codes.Unavailable, "the connection was dropped by "+r.String())
}

func (x *passage) forward(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()
	for _, name := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} {
		md.Delete(name)
	}
	x.end.Reached = true
	err := x.plugin.conn.Invoke(metadata.NewOutgoingContext(ctx, md), x.full, x.in, x.out,
		grpc.ForceCodecV2(rawCodec{}))
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}
