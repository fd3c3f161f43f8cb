package csi

import (
	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

// ruleOf is the one place that gives meaning to codes. A call that changes nothing leaves nothing uncertain.
func ruleOf(rpc RPC, code Code) rule {
	r, ok := ownRules[rpc][code]
	if !ok {
		if r, ok = defaultRules[code]; !ok {
			r = defaultRules[codes.Unknown]
		}
	}
	if !rpc.Mutating() {
		r.finality = Final
	}
	return r
}

// Explain tells what a code means for a call: what is known afterwards, when a repetition makes sense, and a sentence
// for people. It covers every call and every code, unknown ones included. The oracle judges callers by it.
func Explain(rpc RPC, code Code) (Finality, volume.Retry, string) {
	r := ruleOf(rpc, code)
	return r.finality, r.retry, r.hint
}

// kindOfCode differs from fault.FromGRPC because codes between our own processes and a plugin's do not mean the same
// (OUT_OF_RANGE from a plugin is a bad size, not a wait).
func kindOfCode(c Code) fault.Kind {
	if k, ok := kinds[c]; ok {
		return k
	}
	return fault.Internal
}
