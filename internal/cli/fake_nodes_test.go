package cli_test

import (
	"encoding/json"
	"net/http"

	"berth/api"
)

// nodeWords is what a fake knows of a node at run time.
type nodeWords struct {
	meta map[string]*string // said at run time
	asks []string           // the servers that the agent's node asks
}

// nodeMeta answers about a node whose configuration says two words.
func (f *fake) nodeMeta() *api.NodeMetaResponse {
	out := &api.NodeMetaResponse{
		Meta:    map[string]string{},
		Dynamic: f.said.meta,
		Static:  map[string]string{"rack": "r1", "old": "1"},
	}
	for k, v := range out.Static {
		out.Meta[k] = v
	}
	for k, v := range f.said.meta {
		if delete(out.Meta, k); v != nil {
			out.Meta[k] = *v
		}
	}
	return out
}

func (f *fake) setMeta(body []byte) (any, error) {
	var req api.NodeMetaApplyRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	f.said.meta = req.Meta
	return f.nodeMeta(), nil
}

func (f *fake) useServers(r *http.Request) (any, error) {
	f.said.asks = append(r.URL.Query()["address"], f.said.asks...)
	return struct{}{}, nil
}
