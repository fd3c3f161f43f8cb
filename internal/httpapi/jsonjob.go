package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"
)

// envelopeJob cuts the job out of a request's envelope, whose other members are no part of the job. Member names match
// without case, as clients expect. Without a job there, the empty object stands for it.
func envelopeJob(data []byte) []byte {
	var envelope map[string]json.RawMessage
	if json.Unmarshal(data, &envelope) != nil {
		return data // the strict decoder says what is wrong
	}
	for name, raw := range envelope {
		if strings.EqualFold(name, "Job") && string(raw) != "null" {
			return raw
		}
	}
	return []byte("{}")
}

// unmarshal decodes the envelope without its job.
func unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

// number reads a whole number from the query; absent is 0.
func (r *request) number(name string) (int64, error) {
	v := r.arg(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, badRequest(name + " must be a whole number, is " + strconv.Quote(v))
	}
	return n, nil
}
