// Package mesh owns what a node has for proxies of Consul's mesh: the way from a socket in their task's directory to
// the agent of Consul, which a network of their own does not reach, and which of their programs are there. Only the
// client's composition imports it.
package mesh

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"sync"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/consul"
)

// Programs are the attributes of a node by which the programs of proxies are found there: where the agent's own PATH
// has them.
func Programs() map[string]string {
	out := map[string]string{}
	for attribute, name := range map[string]string{consul.AttributeProgram: "consul", consul.AttributeEnvoy: "envoy"} {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
			out[attribute] = path
		}
	}
	return out
}

// Images are the metadata of a node that the tasks of Envoy name, as they are where nobody says otherwise. Version is
// that of the Envoy which its Consul knows best; empty: it is not known.
func Images(version string) map[string]string {
	out := map[string]string{"connect.log_level": "info", "connect.proxy_concurrency": "1"}
	if version != "" {
		out["connect.sidecar_image"] = "docker.io/envoyproxy/envoy:v" + version
		out["connect.gateway_image"] = out["connect.sidecar_image"]
	}
	return out
}

// most is how many connections one proxy may have to Consul at a time: Envoy has one, the built-in proxy a few more.
const most = 64

// Relay answers on a listener by passing each connection on to where dial leads.
func Relay(
	dial func(context.Context) (net.Conn, error), log *slog.Logger,
) func(ctx context.Context, l net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		g, ctx := lifecycle.NewGroup(ctx)
		stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept says so
		defer stop()
		slots := make(chan struct{}, most)
		for {
			c, err := l.Accept()
			if err != nil {
				g.Stop()
				return errors.Join(g.Wait(), err)
			}
			select {
			case slots <- struct{}{}:
			default:
				_ = c.Close() // there are too many
				continue
			}
			g.Go("relay", func() error {
				defer func() { <-slots }()
				if err := pass(ctx, c, dial); err != nil && ctx.Err() == nil {
					log.Debug("a proxy does not reach Consul", logkey.Error, err)
				}
				return nil
			})
		}
	}
}

// pass passes what either side says on to the other, until both have ended.
func pass(ctx context.Context, down net.Conn, dial func(context.Context) (net.Conn, error)) error {
	defer func() { _ = down.Close() }() // all was said
	up, err := dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // all was said
	stop := context.AfterFunc(ctx, func() { _, _ = down.Close(), up.Close() })
	defer stop()
	g, _ := lifecycle.NewGroup(ctx)
	var once sync.Once
	for _, way := range [][2]net.Conn{{up, down}, {down, up}} {
		g.Go("relay", func() error {
			_, err := io.Copy(way[0], way[1])
			half, can := way[0].(interface{ CloseWrite() error })
			if err != nil || !can {
				once.Do(func() { _, _ = down.Close(), up.Close() }) // the other way has nobody to speak to
				return nil
			}
			return half.CloseWrite()
		})
	}
	return g.Wait()
}

// Described adds what proxies need to a description of the node by its agent of Consul.
type Described struct {
	Consul interface {
		Attributes() map[string]string
		Changed() <-chan struct{}
		Envoy() string
	}
	Programs map[string]string
}

// Attributes are those of the node.
func (d Described) Attributes() map[string]string {
	out := d.Consul.Attributes()
	maps.Copy(out, d.Programs)
	if v := d.Consul.Envoy(); v != "" {
		out[consul.AttributeEnvoyVersion] = v
	}
	return out
}

// Meta are those that nobody else gives.
func (d Described) Meta() map[string]string { return Images(d.Consul.Envoy()) }

// Changed returns a channel that is closed when they change.
func (d Described) Changed() <-chan struct{} { return d.Consul.Changed() }
