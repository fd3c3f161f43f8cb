package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/model/volume"
)

// call is one RPC on its way: what it is about, what the plugin has advertised, and the first reason not to send it.
// Checks are chained and stop at the first finding. Nothing here ever sees a secret but Scrub and the request itself.
type call struct {
	c       *Client
	rpc     RPC
	subject string
	log     []slog.Attr
	secrets redact.Map
	hidden  redact.Map // values of mount flags
	inst    Instance
	refused *Error
}

// begin opens a call on an object: kind is a log key ("volume", "snapshot" …), empty when the call is about the plugin.
func (c *Client) begin(rpc RPC, kind, id string, secrets redact.Map) *call {
	c.sent.Remember(secrets)
	k := &call{c: c, rpc: rpc, secrets: secrets, subject: pluginSubject(c.opts.Plugin)}
	if kind != "" {
		k.subject = strconv.Quote(cut(clean(id), maxString)) // the operation names the kind
		k.about(kind, id)
	}
	return k
}

// about adds to the log line another object that the call names.
func (k *call) about(kind, id string) *call {
	k.log = append(k.log, slog.String(kind, cut(clean(id), maxString)))
	return k
}

// need loads the negotiated facts: without them no capability is known, and unknown is not absent.
func (k *call) need() *call {
	if p := k.c.inst.Load(); p != nil {
		k.inst = *p
		return k
	}
	k.refuse(codes.FailedPrecondition, fault.NotReady, volume.RetryBackoff,
		"the capabilities of the plugin are not known yet", "wait until the plugin is healthy")
	return k
}

func (k *call) controller(c ControllerCap) *call {
	k.need()
	return k.capability(k.inst.Roles.Has(RoleController) && k.inst.Controller.Has(c),
		"controller capability "+c.String())
}

func (k *call) node(c NodeCap) *call {
	k.need()
	return k.capability(k.inst.Node.Has(c), "node capability "+c.String())
}

// role demands that the role itself was negotiated, for calls that every plugin with the role must offer.
func (k *call) role(r Roles) *call {
	k.need()
	return k.capability(k.inst.Roles.Has(r), "the "+r.String()+" role")
}

func (k *call) capability(advertised bool, name string) *call {
	if !advertised {
		k.refuse(codes.Unimplemented, fault.Unsupported, volume.RetryNever, "the plugin does not advertise "+name,
			"use another plugin, or one whose version offers it")
	}
	return k
}

// field demands a capability for a field that is set.
func (k *call) field(set bool, field string, advertised bool, name string) *call {
	if set && !advertised {
		k.refuse(codes.Unimplemented, fault.Unsupported, volume.RetryNever,
			field+" is set but the plugin does not advertise "+name, "leave it out, or use a plugin that offers it")
	}
	return k
}

func (k *call) invalid(text string) *call {
	return k.refuse(codes.InvalidArgument, fault.Invalid, volume.RetryNever, text, "")
}

func (k *call) refuse(code Code, kind fault.Kind, retry volume.Retry, text, hint string) *call {
	if k.refused == nil {
		k.refused = &Error{
			RPC:      k.rpc,
			Code:     code,
			Message:  text,
			Finality: Final,
			Retry:    retry,
			fault: &fault.Error{
				Kind:    kind,
				Op:      k.op(),
				Subject: k.subject,
				Hint:    hint,
				Err:     fmt.Errorf("%s not sent: %s", k.rpc, text),
			},
		}
	}
	return k
}

func (k *call) op() string { return rpcTable[k.rpc].op }

// send makes the call unless a check refused it.
func (k *call) send(ctx context.Context, req, resp proto.Message) error {
	if k.refused == nil {
		k.checkAlive(ctx)
	}
	if k.refused != nil {
		k.c.opts.Log.LogAttrs(ctx, slog.LevelDebug, "csi call refused",
			k.attrs(slog.String(logkey.Error, k.refused.Message))...)
		return k.refused
	}
	limit := k.c.opts.Timeouts[k.rpc]
	if limit <= 0 {
		limit = k.rpc.DefaultTimeout()
	}
	ctx, cancel := k.c.opts.Clock.WithTimeout(ctx, limit)
	defer cancel()
	begun := time.Now()
	var header metadata.MD
	err := k.c.conn.Invoke(ctx, k.rpc.FullMethod(), req, resp, grpc.Header(&header))
	took := slog.Duration(logkey.Took, time.Since(begun))
	if errors.Is(bootclock.Err(ctx), context.DeadlineExceeded) {
		// Whatever came, the servers gave the call up before; gRPC knows of no end but by its own clock.
		err = status.FromContextError(context.DeadlineExceeded).Err()
	}
	if err == nil {
		k.c.opts.Log.LogAttrs(ctx, slog.LevelDebug, "csi call", k.attrs(took)...)
		return nil
	}
	e := k.failure(status.Convert(err), len(header) > 0)
	k.c.opts.Log.LogAttrs(ctx, slog.LevelDebug, "csi call failed",
		k.attrs(took, slog.String("code", e.Code.String()), slog.String("finality", e.Finality.String()),
			slog.String(logkey.Error, e.Message))...)
	return e
}

func (k *call) checkAlive(ctx context.Context) {
	if k.c.conn.GetState() != connectivity.Ready {
		k.c.end.signal() // the plugin is closing: what is under way may finish, nothing new begins
	}
	select {
	case <-k.c.end.ch:
		k.refuse(codes.Unavailable, fault.Unavailable, volume.RetryBackoff, "the connection to the plugin has ended",
			"wait until the plugin is back")
	default:
	}
	if err := bootclock.Err(ctx); err != nil {
		s := status.FromContextError(err)
		k.refuse(s.Code(), fault.KindOf(err), volume.RetryBackoff, s.Message(), "")
	}
}

// failure turns the end of a call into the error that callers act on.
func (k *call) failure(s *status.Status, hadHeader bool) *Error {
	r := ruleOf(k.rpc, s.Code())
	msg := cut(clean(k.scrub(s.Message())), maxMessage)
	if s.Code() == codes.ResourceExhausted && hadHeader && k.rpc.Mutating() {
		// A plugin that says no sends no header. One came: gRPC refused the answer for its size, so the work is done.
		r = rule{Unknown, volume.RetryBackoff,
			"the answer is larger than the bound of " + strconv.Itoa(k.c.opts.MaxAnswer) + " bytes"}
	}
	text := s.Code().String()
	if msg != "" {
		text += ": " + msg
	}
	return &Error{
		RPC:      k.rpc,
		Code:     s.Code(),
		Message:  msg,
		Finality: r.finality,
		Retry:    r.retry,
		Sent:     true,
		fault: &fault.Error{
			Kind:    kindOfCode(s.Code()),
			Op:      k.op(),
			Subject: k.subject,
			Hint:    r.hint,
			Err:     fmt.Errorf("%s answered %s", k.rpc, text),
		},
	}
}

// defect is the error of an answer that came with OK but cannot be used: what was asked may have been done.
func (k *call) defect(text string) *Error {
	text = cut(clean(k.scrub(text)), maxMessage)
	k.c.opts.Log.Warn("csi plugin answers outside the specification", slog.Any("call", slog.GroupValue(k.attrs()...)),
		slog.String(logkey.Error, text))
	f := Unknown
	if !k.rpc.Mutating() {
		f = Final
	}
	return &Error{
		RPC:      k.rpc,
		Code:     codes.Internal,
		Message:  text,
		Finality: f,
		Retry:    volume.RetryBackoff,
		Sent:     true,
		fault: &fault.Error{
			Kind:    fault.Internal,
			Op:      k.op(),
			Subject: k.subject,
			Hint:    "this is a defect of the plugin; report it to its maker",
			Err:     fmt.Errorf("%s answered OK with %s", k.rpc, text),
		},
	}
}

func (k *call) attrs(more ...slog.Attr) []slog.Attr {
	out := append(make([]slog.Attr, 0, 1+len(k.log)+len(more)), slog.String(logkey.RPC, string(k.rpc)))
	return append(append(out, k.log...), more...)
}
