package taskhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/derive/envoy"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/port/driver"
	"berth/internal/port/users"
)

// Mesh gives a proxy of Consul's mesh its way to Consul, and Envoy the file that it begins with.
type Mesh struct {
	// HTTP and GRPC are the ways to the agent of Consul; nil: the node has none.
	HTTP, GRPC Sockets
	Node       func() *node.Node
	// Registered says why a service is not registered in Consul yet; nil: it is. Moved is closed when that may change.
	Registered func(id string) error
	Moved      func() <-chan struct{}
}

var (
	_ hook.Prestarter = (*Mesh)(nil)
	_ hook.Stopper    = (*Mesh)(nil)
)

// Name implements hook.Hook.
func (*Mesh) Name() string { return "mesh" }

// Prestart waits until Consul knows what the proxy is to do.
func (h *Mesh) Prestart(ctx context.Context, t *hook.Task) error {
	if !t.Task.Kind.Proxies() {
		return nil
	}
	if h.HTTP == nil {
		return fault.New(fault.Unsupported, "start", "proxy "+t.Task.Name, "the node's agent speaks to no Consul")
	}
	of, proxy, err := service.ProxyOf(service.Source{Alloc: t.Alloc, Job: t.Job, Node: h.Node()}, t.Task)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "start", "proxy "+t.Task.Name)
	}
	for _, way := range []Sockets{h.HTTP, h.GRPC} {
		if _, err := way.Open(secretsOf(t)); err != nil {
			return err
		}
	}
	seen := t.Variables()["NOMAD_SECRETS_DIR"]
	builtin := t.Task.Config["command"] == consul.BuiltinProgram
	if longest := seen + "/" + consul.HTTPSocket; len(longest) > longestSocket {
		return fault.WithHint(fault.New(fault.Invalid, "start", "proxy "+t.Task.Name, fmt.Sprintf(
			"the path of its way to Consul, %s, is %d bytes long, and the kernel takes %d", longest, len(longest),
			longestSocket)), "give sidecar_task the driver exec or docker, or a shorter name")
	}
	if builtin {
		t.Out.Env["CONSUL_HTTP_ADDR"] = "unix://" + seen + "/" + consul.HTTPSocket
		t.Out.Env[consul.EnvSidecarFor] = of
	}
	if t.Restored {
		return nil // it has what it began with
	}
	for _, id := range []string{of, proxy} {
		if err := h.await(ctx, t, id); err != nil {
			return err
		}
	}
	token := readToken(t, MeshTokenFile)
	switch {
	case builtin && !token.Empty():
		t.Out.Env["CONSUL_HTTP_TOKEN_FILE"] = seen + "/" + MeshTokenFile
		return nil
	case builtin:
		return nil
	}
	return h.bootstrap(t, proxy, seen, token)
}

// longestSocket bounds the path of a socket (sun_path of unix(7), which ends with a zero byte).
const longestSocket = 107

// await waits until a service is registered, and says each new reason why it is not.
func (h *Mesh) await(ctx context.Context, t *hook.Task, id string) error {
	for said := ""; ; {
		moved := h.Moved()
		err := h.Registered(id)
		if err == nil {
			return nil
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			t.Emit(&alloc.TaskEvent{
				Type:           alloc.EventServices,
				Time:           time.Now().UnixNano(),
				DisplayMessage: "The proxy waits: " + text,
				Message:        text,
			})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// bootstrap writes the file that Envoy begins with. It holds the token, and nobody but the task's user reads it.
func (h *Mesh) bootstrap(t *hook.Task, proxy, seen string, token redact.Secret) error {
	text, err := envoy.Bootstrap(envoy.Config{
		ID:      proxy,
		Cluster: service.ClusterOf(t.Task.Kind),
		Source:  t.Task.Kind.Service(),
		Socket:  seen + "/" + consul.GRPCSocket,
		Token:   token,
		Admin:   envoy.AdminOf(t.Alloc.ID, t.Group, t.Task),
		Ready:   envoy.ReadyOf(t.Alloc.ID, t.Group, t.Task),

		Datacenter: h.Node().Attributes[consul.AttributeDatacenter],
	})
	if err != nil {
		return err
	}
	f := file{mode: 0o600}
	if f.uid, f.gid, err = users.Owner(t.User); err != nil {
		return err
	}
	if f.uid < 0 && t.DriverInfo.Capabilities.FSIsolation == driver.IsolationImage {
		f.mode = 0o644 // its image says who reads it, in a directory that no one else gets into
	}
	_, err = f.write(t.TaskDir, allocdir.Secrets+"/"+consul.BootstrapFile, text)
	return fault.Note(err, "write", consul.BootstrapFile+" of task "+t.Task.Name)
}

// Stop takes the ways away.
func (h *Mesh) Stop(_ context.Context, t *hook.Task) error {
	if !t.Task.Kind.Proxies() || h.HTTP == nil {
		return nil
	}
	return errors.Join(h.HTTP.Close(secretsOf(t)), h.GRPC.Close(secretsOf(t)))
}
