package verbs

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
	"berth/internal/model/alloc"
	vol "berth/internal/model/volume"
	serverstate "berth/internal/server/state"
	"berth/internal/testkit/oneserver"
)

// fill puts volumes and allocs of a job into the state that a server has.
func fill(t testing.TB, store *serverstate.Store, volumes, allocs int) {
	t.Helper()
	err := store.Write(store.Snapshot().Stamp(), func(tx *serverstate.Tx) error {
		for i := range volumes {
			tx.PutVolume(&vol.Volume{
				ID: vol.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprintf("volume-%05d", i))},
				Spec: vol.Spec{
					Plugin:      "disk",
					Name:        "a volume",
					CapacityMin: 1 << 30,
					Capabilities: []vol.Capability{{
						AccessMode:     vol.SingleNodeWriter,
						AttachmentMode: vol.FileSystem,
					}},
					Parameters: map[string]string{"tier": "fast"},
				},
				Status: vol.Status{
					Phase:      vol.PhaseReady,
					ExternalID: fmt.Sprintf("external-%05d", i),
					Presence:   vol.Present,
					Capacity:   1 << 30,
				},
			})
		}
		for i := range allocs {
			tx.PutAlloc(&alloc.Alloc{
				ID:            ids.Alloc(ids.New()),
				Namespace:     ids.DefaultNamespace,
				Name:          fmt.Sprintf("web.g[%d]", i),
				Node:          "node",
				Job:           "web",
				TaskGroup:     "g",
				DesiredStatus: alloc.DesiredRun,
				ClientStatus:  alloc.ClientRunning,
				TaskStates: map[string]*alloc.TaskState{"t": {
					State:     alloc.TaskRunning,
					StartedAt: time.Now(),
					Events: []*alloc.TaskEvent{
						{Type: alloc.EventReceived, DisplayMessage: "Task received by client"},
						{Type: alloc.EventTaskSetup, DisplayMessage: "Building Task Directory"},
						{Type: alloc.EventStarted, DisplayMessage: "Task started by client"},
					},
				}},
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// everything reads a list to its end and counts what it has.
func everything[T any](
	ctx context.Context, page int, list func(context.Context, *api.QueryOptions) ([]T, *api.QueryMeta, error),
) (n int, err error) {
	o := &api.QueryOptions{PerPage: page}
	for {
		items, meta, err := list(ctx, o)
		if err != nil {
			return n, err
		}
		n += len(items)
		if o.NextToken = meta.NextToken; o.NextToken == "" {
			return n, nil
		}
	}
}

// BenchmarkLists reads lists as a client of the API does, over HTTP, whole and page by page.
func BenchmarkLists(b *testing.B) {
	for _, test := range []struct {
		what        string
		count, page int
	}{
		{"volumes", 500, 0},
		{"volumes", 10_000, 0},
		{"volumes", 10_000, 500},
		{"allocs", 500, 0},
	} {
		b.Run(fmt.Sprintf("%s=%d/page=%d", test.what, test.count, test.page), func(b *testing.B) {
			s, conn := oneserver.Start(b)
			h := httpapi.New(httpapi.Config{
				Servers: conn,
				Region:  "global",
				Log:     slog.New(slog.DiscardHandler),
				Self:    self{},
			})
			web := httptest.NewServer(h.Handler(access.Network{}))
			b.Cleanup(web.Close)
			c, err := api.NewClient(api.Config{Address: web.URL})
			if err != nil {
				b.Fatal(err)
			}
			read := func() (int, error) { return everything(b.Context(), test.page, c.Volumes().List) }
			if test.what == "allocs" {
				fill(b, s.Store(), 0, test.count)
				read = func() (int, error) { return everything(b.Context(), test.page, c.Allocations().List) }
			} else {
				fill(b, s.Store(), test.count, 0)
			}
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if n, err := read(); err != nil || n != test.count {
					b.Fatalf("the list has %d, want %d: %v", n, test.count, err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			for name, d := range map[string]time.Duration{"min-ms": took[0], "p50-ms": took[len(took)/2],
				"max-ms": took[len(took)-1]} {
				b.ReportMetric(float64(d)/float64(time.Millisecond), name)
			}
		})
	}
}
