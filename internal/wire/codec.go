package wire

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

const codecName = "cbor"

// MaxMessage bounds one message in either direction, in bytes.
const MaxMessage = 64 << 20

// MaxRequest bounds one that a server takes, in bytes: none is larger than a job, whose 8 MiB grow by what it leaves
// out.
const MaxRequest = 32 << 20

// MaxDepth bounds how deep what is read nests. It is far above what a request may bring (httpapi/params.MaxDepth): what
// a server has accepted is sent on within lists and sets, which nodes and servers must be able to read.
const MaxDepth = 128

// lenient is the RPC mode: a newer peer's unknown fields are skipped. The Raft log, snapshots and the local store
// use Strict instead.
var (
	encMode = must(encOptions().EncMode())
	lenient = must(decOptions(cbor.ExtraDecErrorNone).DecMode())
	strict  = must(decOptions(cbor.ExtraDecErrorUnknownField).DecMode())
)

func encOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.Time = cbor.TimeRFC3339Nano
	o.TimeTag = cbor.EncTagNone
	return o
}

func decOptions(extra cbor.ExtraDecErrorCond) cbor.DecOptions {
	return cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		DefaultMapType:    mapType,
		ExtraReturnErrors: extra,
		MaxNestedLevels:   MaxDepth,
		MaxArrayElements:  1 << 22,
		MaxMapPairs:       1 << 20,
		// Encode writes any string. Were one refused here that is no UTF-8, as names of a task's files may be, it would
		// keep all that a node reports from the servers, and an alloc's record from the agent's next start.
		UTF8: cbor.UTF8DecodeInvalid,
	}
}

// Encode writes v in the one canonical form (core deterministic CBOR): equal values give equal bytes.
func Encode(v any) ([]byte, error) { return encMode.Marshal(v) }

// Decode reads what a peer sent; unknown fields are skipped.
func Decode(data []byte, v any) error { return lenient.Unmarshal(data, v) }

// DecodeStrict reads what the Raft log, a snapshot or the local store holds; an unknown field is an error, because
// skipping it would lose state.
func DecodeStrict(data []byte, v any) error { return strict.Unmarshal(data, v) }

type codec struct{}

func (codec) Name() string                  { return codecName }
func (codec) Marshal(v any) ([]byte, error) { return encMode.Marshal(v) }

func (codec) Unmarshal(data []byte, v any) error {
	if err := lenient.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return Whole(v)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
