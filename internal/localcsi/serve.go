package localcsi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/flock"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/localcsi/controller"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/node"
	"berth/internal/localcsi/request"
)

// stopGrace is how long calls may go on after the plugin was asked to stop.
const stopGrace = 3 * time.Second

// Run serves CSI on the endpoint until ctx ends and every call has returned. Volumes that are staged or published stay
// so: kernel mounts need no plugin.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg, err = cfg.prepare(); err != nil {
		return err
	}
	d, lock, err := datadir.Open(datadir.Settings{
		Node:        cfg.NodeID,
		Root:        cfg.DataDir,
		Identity:    cfg.Identity,
		Attach:      cfg.Attach,
		AttachLimit: cfg.AttachLimit,
		Capacity:    cfg.capacity,
		FreezeLimit: cfg.FreezeLimit,
		Log:         cfg.Log,
		Step:        cfg.step,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flock.Release(lock)) }()
	ln, err := listen(ctx, cfg.socket)
	if err != nil {
		return err
	}
	defer ln.Close()
	cfg.Log.Info("serving", logkey.Path, cfg.socket, logkey.Node, cfg.NodeID, "data_dir", cfg.DataDir, "reflink",
		d.Copier.Reflink)
	return errors.Join(serve(ctx, cfg, d, ln), dropSocket(cfg.socket, ln))
}

func serve(ctx context.Context, cfg Config, d *datadir.Directory, ln *listener) error {
	// A call is not bound to its caller's patience: what was begun is finished, and who calls again finds it done or
	// hears that it is going on. Only the end of the plugin, after a grace, cuts it off.
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := grpc.NewServer(grpc.WaitForHandlers(true), grpc.UnaryInterceptor(intercept(calls, cfg.Log)))
	csi.RegisterIdentityServer(srv, &identity{version: cfg.Version, there: d.There})
	csi.RegisterControllerServer(srv, &controller.Server{Directory: d})
	csi.RegisterNodeServer(srv, &node.Server{Directory: d})

	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("serve", func() error { return srv.Serve(ln) })
	g.Go("stop", func() error {
		<-gctx.Done()
		stopped := make(chan struct{})
		g.Go("stop gracefully", func() error {
			defer close(stopped)
			srv.GracefulStop()
			return nil
		})
		select {
		case <-stopped:
		case <-time.After(stopGrace):
			cut()
			srv.Stop()
		}
		return nil
	})
	return g.Wait()
}

// intercept gives every call the plugin's own context, a code, and a line in the log. It never logs a request: secrets
// and mount flags are in there.
func intercept(calls context.Context, log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(_ context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (resp any, err error) {
		begun := time.Now()
		log := log.With(logkey.RPC, path.Base(info.FullMethod))
		if r, ok := req.(interface{ GetVolumeId() string }); ok && r.GetVolumeId() != "" {
			log = log.With(logkey.Volume, fmt.Sprintf("%.128s", r.GetVolumeId()))
		}
		defer func() {
			if v := recover(); v != nil {
				log.Error("a call panicked", "panic", v, "stack", string(debug.Stack()))
				resp, err = nil, status.Error(codes.Internal, "the plugin has a defect: the call panicked; see its log")
			}
		}()
		resp, err = handler(calls, req)
		if err != nil {
			err = request.Coded(err)
			log.Warn("refused or failed", "code", status.Code(err).String(), logkey.Error, err, logkey.Took,
				time.Since(begun))
			return nil, err
		}
		log.Debug("done", logkey.Took, time.Since(begun))
		return resp, nil
	}
}
