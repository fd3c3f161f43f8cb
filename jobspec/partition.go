package jobspec

import (
	"bytes"
	"encoding/json"
	"reflect"

	"berth/api"
	"berth/jobspec/hclfile"
)

// nodePoolFile is a node pool file.
type nodePoolFile struct {
	Pool *api.NodePool `hcl:"node_pool,block"`
}

var nodePoolSpecials = map[reflect.Type]hclfile.Special{
	reflect.TypeFor[nodePoolFile](): {Refusal: map[string]string{
		"name":        "write it as the label of a block: node_pool \"name\" { … }",
		"description": "write it in the block: node_pool \"name\" { description = \"…\" }",
		"meta":        "write it in the block: node_pool \"name\" { meta { … } }",
	}},
}

// ParseNamespace reads a namespace file: HCL2, or JSON as the API shows a namespace. The server checks everything; here
// is found what has a line.
func ParseNamespace(path string, src []byte) (*api.Namespace, error) {
	out := &api.Namespace{}
	r := hclfile.NewReport()
	if hclfile.IsJSON(src) {
		shownJSON(r, path, src, out)
	} else {
		hclfile.DecodeInto(r, path, src, out, nil)
	}
	return out, r.Err()
}

// ParseNodePool reads a node pool file: HCL2, with one block node_pool "name", or JSON as the API shows a pool.
func ParseNodePool(path string, src []byte) (*api.NodePool, error) {
	r := hclfile.NewReport()
	if hclfile.IsJSON(src) {
		out := &api.NodePool{}
		shownJSON(r, path, src, out)
		return out, r.Err()
	}
	var f nodePoolFile
	if d := hclfile.DecodeInto(r, path, src, &f, nodePoolSpecials); d != nil && !r.Failed() && f.Pool == nil {
		r.AddFile(path, "the file has no pool; write node_pool \"name\" { description = \"…\" }")
	}
	return f.Pool, r.Err()
}

// shownJSON reads an object in the form in which the API shows it. Members that it does not have are refused.
func shownJSON(r *hclfile.Report, path string, src []byte, out any) {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	err := dec.Decode(out)
	if err == nil && dec.More() {
		r.AddFile(path, "the file goes on behind its object; write one object")
	}
	if err != nil {
		r.AddFile(path, "%s", err)
	}
}
