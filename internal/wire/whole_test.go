package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"

	"berth/internal/base/fault"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/wire"
)

// Given messages in which an element of a list or a map is nothing, at any depth, when they are read, then they are
// refused with the place; what is merely left out is not.
func TestNoMessageHasHoles(t *testing.T) {
	type tree struct {
		Name  string
		Below []*tree
		By    map[string][]map[int]*tree
		Pair  [2]*int
	}
	one := new(int)
	for want, v := range map[string]any{
		`Allocs[1].TaskStates["t"] is nothing`: &wire.NodeUpdateRequest{Allocs: []*alloc.Alloc{{},
			{TaskStates: map[string]*alloc.TaskState{"t": nil}}}},
		`Allocs[0].TaskStates["t"].Events[0] is nothing`: &wire.NodeUpdateRequest{Allocs: []*alloc.Alloc{
			{TaskStates: map[string]*alloc.TaskState{"t": {Events: []*alloc.TaskEvent{nil}}}}}},
		`Info.CSI[0] is nothing`: &wire.NodeRegisterRequest{Info: &node.Node{CSI: []*plugin.Instance{nil}}},
		`Job.TaskGroups[0].Tasks[0] is`: &wire.JobRegisterRequest{Job: &job.Job{
			TaskGroups: []*job.TaskGroup{{Tasks: []*job.Task{nil}}}}},
		`By["a"][0]["7"].Below[0] is nothing`: &tree{Pair: [2]*int{one, one},
			By: map[string][]map[int]*tree{"a": {{7: {Below: []*tree{nil}}}}}},
		`Pair[1] is nothing`: &tree{Pair: [2]*int{one, nil}},
		"": &tree{Below: []*tree{}, Pair: [2]*int{one, one},
			By: map[string][]map[int]*tree{"a": nil, "b": {nil, {}}}},
	} {
		data, err := wire.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		err = encoding.GetCodec("cbor").Unmarshal(data, v)
		switch {
		case want == "" && err != nil:
			t.Errorf("what is whole is refused: %v", err)
		case want != "" && (!fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// BenchmarkWhole is what the look costs beside decoding.
func BenchmarkWhole(b *testing.B) {
	req := &wire.NodeUpdateRequest{}
	for range 1000 {
		req.Allocs = append(req.Allocs, &alloc.Alloc{TaskStates: map[string]*alloc.TaskState{
			"t": {Events: []*alloc.TaskEvent{{}, {}, {}}}}})
	}
	data, err := wire.Encode(req)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if err := wire.Decode(data, &wire.NodeUpdateRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			if err := wire.Whole(req); err != nil {
				b.Fatal(err)
			}
		}
	})
}
