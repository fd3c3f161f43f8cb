package csitest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"berth/internal/base/lifecycle"
	"berth/internal/testkit/fake"
)

// Bare is a fake whose state is in memory, and without a proxy in front of it: nothing records its calls, and nobody
// judges them. It is for measurements, of which neither may be a part. It listens when the returned function is called.
func Bare(b *testing.B, id string, f Fake) (p *Plugin, listen func()) {
	b.Helper()
	dir := shortDir(b)
	p = &Plugin{
		ID:     id,
		Socket: filepath.Join(dir, "csi.sock"),
		Dir:    filepath.Join(dir, "backend"),
		Node:   "node-a",
		AtOnce: f.AtOnce,
		t:      b,
	}
	f.Dir, f.NodeID = p.Dir, p.Node
	f.Memory = true
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	g, gctx := lifecycle.NewGroup(ctx)
	b.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.Error(fmt.Errorf("the plugin %q: %w", p.ID, err))
		}
	})
	return p, func() { g.Go("fake", func() error { return fake.Serve(gctx, p.Socket, f) }) }
}
