package cli_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
)

// The id of the lock that somebody gets, and how variables are locked by somebody else.
const lockID = "0b5da83c-0000-4000-8000-000000000001"

func elsewhere() *api.VariableLock { return &api.VariableLock{TTL: "15s", LockDelay: "15s"} }

// kept are the variables, by path.
func (f *fake) kept() []*api.Variable {
	at := func(path string, index uint64, l *api.VariableLock, items api.Secrets) *api.Variable {
		return &api.Variable{
			Namespace:   "default",
			Path:        path,
			CreateIndex: 20,
			ModifyIndex: index,
			CreateTime:  f.now.Add(-time.Hour).UnixNano(),
			ModifyTime:  f.now.Add(-time.Minute).UnixNano(),
			Lock:        l,
			Items:       items,
		}
	}
	return []*api.Variable{
		at("app/db", 31, nil, api.Secrets{"password": "open ${sesame}", "user": "web"}),
		at("app/leader", 20, elsewhere(), api.Secrets{}),
		at("nomad/jobs/web", 42, nil, api.Secrets{"key": "value"}),
	}
}

// variables answers about variables; no: it is about something else.
func (f *fake) variables(r *http.Request, path string, body []byte) (out any, ok bool, err error) {
	if path == "vars" {
		list := []*api.VariableMetadata{}
		for _, v := range f.kept() {
			if strings.HasPrefix(v.Path, r.FormValue("prefix")) {
				list = append(list, &api.VariableMetadata{
					Namespace:  v.Namespace,
					Path:       v.Path,
					Lock:       v.Lock,
					ModifyTime: v.ModifyTime,
				})
			}
		}
		return list, true, nil
	}
	path, ok = strings.CutPrefix(path, "var/")
	if !ok {
		return nil, false, nil
	}
	now := &api.Variable{Namespace: "default", Path: path}
	if i := slices.IndexFunc(f.kept(), func(v *api.Variable) bool { return v.Path == path }); i >= 0 {
		now = f.kept()[i]
	}
	conflict := func() (any, bool, error) {
		text, _ := json.Marshal(now)
		return nil, true, &refusal{http.StatusConflict, string(text)}
	}
	check, checks := r.URL.Query()["cas"]
	switch {
	case r.Method == http.MethodGet && now.ModifyIndex == 0:
		return nil, true, &refusal{http.StatusNotFound, "variable not found"}
	case r.Method == http.MethodGet:
		return now, true, nil
	case r.URL.Query().Has("lock-acquire") && now.Lock != nil:
		return conflict()
	}
	var in api.Variable
	if r.Method == http.MethodPut {
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, true, &refusal{http.StatusBadRequest, err.Error()}
		}
	}
	held := in.Lock != nil && in.Lock.ID == lockID
	switch {
	case r.URL.Query().Has("lock-renew"), r.URL.Query().Has("lock-release"):
		if !held || path == "app/taken" && r.URL.Query().Has("lock-renew") {
			return conflict()
		}
		return now, true, nil
	case checks && check[0] != strconv.FormatUint(now.ModifyIndex, 10), now.Lock != nil:
		return conflict()
	case r.Method == http.MethodDelete:
		return nil, true, nil
	case r.URL.Query().Has("lock-acquire"):
		now.Lock = in.Lock
		now.Lock.ID = lockID
	}
	now.Items = in.Items
	now.ModifyIndex, now.ModifyTime = 50, f.now.UnixNano()
	return now, true, nil
}
