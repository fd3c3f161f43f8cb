package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/internal/port/pluginhost/configspec"
	"berth/pluginproto/driverpb"
	"berth/pluginproto/structspb"
)

// connection is one process of a plugin that is connected and has its configuration.
type connection struct {
	d    *Driver
	rpc  driverpb.DriverClient
	spec configspec.Spec // of tasks
	caps *driverpb.DriverCapabilities
	info driver.Info

	process *pluginhost.Process
	since   time.Time // since when it is connected
}

// open makes a plugin's process ready, as the protocol has it.
func (d *Driver) open(ctx context.Context, p *pluginhost.Process) (pluginhost.Connection, error) {
	if name := p.About.GetName(); d.cfg.Claim != nil && !d.cfg.Claim(name) {
		return nil, fault.WithHint(fault.New(fault.Conflict, "use", d.host.Subject(),
			fmt.Sprintf("it calls itself %q, and there is another driver of this name", name)),
			"leave one of them out of the agent's configuration")
	}
	if err := os.MkdirAll(d.cfg.outputsDir(), 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "directory "+strconv.Quote(d.cfg.outputsDir()))
	}
	s := &connection{d: d, rpc: driverpb.NewDriverClient(p.Conn), process: p, since: time.Now()}
	if _, err := s.rpc.Init(ctx, &driverpb.InitRequest{}); err != nil && status.Code(err) != codes.Unimplemented {
		return nil, problem(err, "start", "it")
	}
	described, err := s.rpc.TaskConfigSchema(ctx, &driverpb.TaskConfigSchemaRequest{})
	if err != nil {
		return nil, problem(err, "ask", "what tasks can configure")
	}
	if s.spec, err = configspec.Read(described.GetSpec()); err != nil {
		return nil, err
	}
	can, err := s.rpc.Capabilities(ctx, &driverpb.CapabilitiesRequest{})
	if err != nil {
		return nil, problem(err, "ask", "what it can do")
	}
	s.caps = can.GetCapabilities()
	if err := d.unspoken(s.caps); err != nil {
		return nil, err
	}
	s.info = driver.Info{
		Name:         p.About.GetName(),
		Version:      p.About.GetPluginVersion(),
		Schema:       s.spec.Schema(),
		Capabilities: capabilities(s.caps),
	}
	return s, nil
}

// Follow implements pluginhost.Connection: it tells what the plugin finds on the node and of its tasks.
func (s *connection) Follow(ctx context.Context) error {
	s.d.set(s, nil)
	defer s.d.set(nil, fault.New(fault.NotReady, "use", s.d.host.Subject(), "it is being started again"))
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("fingerprints", func() error {
		defer g.Stop()
		return s.fingerprints(gctx, s.d.say.word)
	})
	g.Go("task events", func() error { return s.events(gctx) })
	return g.Wait()
}

// seldom is how long a plugin's next word on how it is waits for the one before: each may be a write of the servers.
const seldom = time.Second

// muteFor is how long a plugin that is connected may take for its first word on how it is.
const muteFor = 10 * time.Second

func (s *connection) fingerprints(ctx context.Context, say func(driver.Fingerprint)) error {
	stream, err := s.rpc.Fingerprint(ctx, &driverpb.FingerprintRequest{})
	if err != nil {
		return problem(err, "ask", "what it finds on the node")
	}
	latest := make(chan driver.Fingerprint, 1)
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("say", func() error {
		mute := time.NewTimer(muteFor)
		defer mute.Stop()
		for {
			select {
			case <-gctx.Done():
				return nil
			case <-mute.C: // what was said of it before is of another process
				say(driver.Fingerprint{
					Health:      driver.Unhealthy,
					Description: fmt.Sprintf("it runs, and has not said within %s how it is", muteFor),
				})
			case f := <-latest:
				mute.Stop()
				say(f)
				retry.Sleep(gctx, seldom)
			}
		}
	})
	g.Go("hear", func() error {
		for {
			f, err := stream.Recv()
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, io.EOF):
				return fault.New(fault.Unavailable, "use", s.d.host.Subject(), "it stopped saying how it is")
			case err != nil:
				return problem(err, "hear", "how it is")
			case f.GetErr() != "":
				return fault.New(fault.Unavailable, "use", s.d.host.Subject(), pluginhost.Clip(f.GetErr()))
			}
			select {
			case <-latest: // nobody has read it yet, and it is not true any more
			default:
			}
			latest <- s.fingerprint(f)
		}
	})
	return g.Wait()
}

// maxAttributes bounds what a plugin says of the node: each word may be a write of the servers, which keep all of it.
const maxAttributes = 256

func (s *connection) fingerprint(f *driverpb.FingerprintResponse) driver.Fingerprint {
	out := driver.Fingerprint{
		Health:      health(f.GetHealth()),
		Description: cut(f.GetHealthDescription()),
		Attributes:  map[string]string{},
	}
	names := slices.Sorted(maps.Keys(f.GetAttributes()))
	if more := len(names) - maxAttributes; more > 0 {
		names = names[:maxAttributes]
		out.Description = cut(fmt.Sprintf("(%d of its attributes are left out) %s", more, out.Description))
	}
	for _, name := range names {
		if text := attribute(f.GetAttributes()[name]); text != "" {
			out.Attributes[cut(name)] = cut(text)
		}
	}
	if out.Health != driver.Undetected {
		out.Attributes["driver."+s.info.Name] = "1"
	}
	return out
}

func attribute(a *structspb.Attribute) string {
	var text string
	switch v := a.GetValue().(type) {
	case *structspb.Attribute_StringVal:
		text = v.StringVal
	case *structspb.Attribute_BoolVal:
		text = strconv.FormatBool(v.BoolVal)
	case *structspb.Attribute_IntVal:
		text = strconv.FormatInt(v.IntVal, 10)
	case *structspb.Attribute_FloatVal:
		text = strconv.FormatFloat(v.FloatVal, 'g', -1, 64)
	}
	if a.GetUnit() != "" && text != "" {
		text += " " + a.GetUnit()
	}
	return text
}

// notFound is what plugins say of a task that they do not know. They say it by this text alone.
const notFound = "task not found for given id"

func isUnknownTask(err error) bool {
	st, ok := status.FromError(err)
	return ok && (st.Code() == codes.NotFound || strings.Contains(st.Message(), notFound))
}

func problem(err error, op, what string) error { return pluginhost.Problem(err, op, what) }
