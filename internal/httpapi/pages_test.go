package httpapi_test

import (
	"context"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// counting is a connection to the servers that counts the items of the list that came last.
type counting struct {
	wire.Conn
	items   atomic.Int64
	earlier atomic.Bool // the servers are of a version that knows no lines
}

func (c *counting) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if r, ok := req.(*wire.VolumeListRequest); ok && c.earlier.Load() {
		r.Lines = false
	}
	err := c.Conn.Invoke(ctx, method, req, reply, opts...)
	n := -1
	switch l := reply.(type) {
	case *wire.List[*wire.JobView]:
		n = len(l.Items)
	case *wire.AllocListReply:
		n = len(l.Items)
	case *wire.List[*eval.Eval]:
		n = len(l.Items)
	case *wire.List[*node.Node]:
		n = len(l.Items)
	case *wire.VolumeLines:
		n = len(l.Lines) + len(l.Items)
	case *wire.List[*wire.PluginView]:
		n = len(l.Items)
	}
	if n >= 0 {
		c.items.Store(int64(n))
	}
	return err
}

// crowd adds nodes with plugins, volumes and jobs, so that every list has several pages.
func (w *world) crowd() {
	for _, p := range []ids.Plugin{"block", "disk2", "disk3", "tape"} {
		id := wire.NodeIdentity{
			Node:   ids.Node(ids.New()),
			Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}},
		}
		info := testInfo(id.Node)
		info.Datacenter = "elsewhere"
		for _, i := range info.CSI {
			i.Plugin = p
		}
		if _, err := wire.NodeRegister.Call(w.t.Context(), w.conn,
			&wire.NodeRegisterRequest{NodeIdentity: id, Info: info}); err != nil {
			w.t.Fatal(err)
		}
		w.place(id.Node, info.CSI)
	}
	for _, id := range []string{"da", "dc", "e", "f"} {
		w.createVolume(id)
		w.submit(webJob("job-" + id))
	}
}

// walk reads a list page by page. most is how many items of it the servers sent at once.
func (r *rig) walk(path string, args url.Values) (pages [][]string, most int64) {
	for token := ""; ; {
		args.Set("next_token", token)
		var page []struct{ ID string }
		token = r.get(path+"?"+args.Encode(), &page).header.Get("X-Nomad-NextToken")
		most = max(most, r.servers.items.Load())
		var shown []string
		for _, it := range page {
			shown = append(shown, it.ID)
		}
		if pages = append(pages, shown); token == "" {
			return pages, most
		}
	}
}

// Given a list, when it is read page by page with and without a filter that is true of everything, then both show the
// same pages, forwards, backwards and beneath a prefix; and without a filter servers send no more than a page at once.
func TestPagesAreTheSameWithAndWithoutAFilter(t *testing.T) {
	w := newWorld(t)
	w.crowd()
	for path, prefix := range map[string]string{
		"/v1/jobs":        "job-",
		"/v1/allocations": "",
		"/v1/evaluations": "",
		"/v1/nodes":       "",
		"/v1/volumes":     "d",
		"/v1/plugins":     "disk",
	} {
		for _, reverse := range []string{"", "true"} {
			for _, prefix := range slices.Compact([]string{"", prefix}) {
				args := url.Values{"per_page": {"2"}, "type": {"csi"}, "reverse": {reverse}, "prefix": {prefix}}
				w.samePages(path, args)
			}
		}
	}
}

// samePages compares the pages of a list that did not change meanwhile.
func (w *world) samePages(path string, args url.Values) {
	w.t.Helper()
	read := func() []string {
		one, _ := w.walk(path, url.Values{"type": {"csi"}, "reverse": args["reverse"], "prefix": args["prefix"]})
		return one[0]
	}
	for deadline := time.Now().Add(time.Minute); ; {
		all := read()
		args.Del("filter")
		paged, most := w.walk(path, args)
		args.Set("filter", `ID != "none"`)
		filtered, sent := w.walk(path, args)
		if !slices.Equal(all, read()) {
			if time.Now().After(deadline) {
				w.t.Fatalf("%s never stood still", path)
			}
			continue
		}
		want := slices.Collect(slices.Chunk(all, 2))
		same := func(pages [][]string) bool { return slices.EqualFunc(pages, want, slices.Equal) }
		if len(want) < 2 || !same(paged) || !same(filtered) {
			w.t.Errorf("%s %v: %v, filtered %v, of %v", path, args, paged, filtered, all)
		}
		if most != 2 || sent < int64(len(all)) {
			w.t.Errorf("%s %v: servers sent %d at once, %d with a filter, of %d", path, args, most, sent, len(all))
		}
		return
	}
}

// Given servers of a version that knows no lines, when volumes are listed, then the list is the same.
func TestAListOfVolumesIsTheSameFromEarlierServers(t *testing.T) {
	w := newWorld(t)
	w.crowd()
	var now, earlier []api.CSIVolumeListStub
	w.get("/v1/volumes?type=csi", &now)
	w.servers.earlier.Store(true)
	w.get("/v1/volumes?type=csi", &earlier)
	if diff := cmp.Diff(now, earlier); diff != "" || len(now) < 4 || now[0].NodesHealthy == 0 {
		t.Errorf("%d volumes, the first %+v: %s", len(now), now[0], diff)
	}
}
