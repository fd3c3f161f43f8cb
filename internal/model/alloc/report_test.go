package alloc

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"berth/internal/base/fault"
)

// TestReportsHaveBounds: what no agent reports of an alloc is refused by the servers, whatever of it is too much; what
// is at its bound is taken.
func TestReportsHaveBounds(t *testing.T) {
	text, many := strings.Repeat("x", MaxReportedText), map[string]string{}
	for i := range maxReported {
		many[fmt.Sprint(i)] = "x"
	}
	full := func() *Alloc {
		a := &Alloc{
			ID:                "a",
			ClientStatus:      ClientRunning,
			ClientDescription: text,
			TaskStates:        map[string]*TaskState{text: {State: text}},
		}
		for range MaxEvents {
			a.TaskStates[text].Events = append(a.TaskStates[text].Events, &TaskEvent{
				Type:           text,
				DisplayMessage: text,
				Message:        text,
				Details:        map[string]string{text: text},
			})
		}
		for i := range maxReported - 1 {
			a.TaskStates[fmt.Sprint(i)] = &TaskState{State: TaskPending, Events: []*TaskEvent{{Details: many}}}
		}
		return a
	}
	if err := full().CheckReport(); err != nil {
		t.Fatal("at the bounds: ", err)
	}
	for _, status := range []string{ClientPending, ClientRunning, ClientComplete, ClientFailed, ClientUnknown,
		ClientLost} {
		if err := (&Alloc{ClientStatus: status}).CheckReport(); err != nil {
			t.Error(err)
		}
	}
	last := func(a *Alloc) *TaskEvent { return a.TaskStates[text].Events[MaxEvents-1] }
	for name, edit := range map[string]func(*Alloc){
		"no status":         func(a *Alloc) { a.ClientStatus = "" },
		"an unknown status": func(a *Alloc) { a.ClientStatus = "done" },
		"a description":     func(a *Alloc) { a.ClientDescription += "x" },
		"tasks":             func(a *Alloc) { a.TaskStates["more"] = &TaskState{} },
		"a task's name":     func(a *Alloc) { delete(a.TaskStates, "1"); a.TaskStates[text+"x"] = &TaskState{} },
		"a task's state":    func(a *Alloc) { a.TaskStates["1"].State = text + "x" },
		"events": func(a *Alloc) {
			s := a.TaskStates[text]
			s.Events = append(s.Events, &TaskEvent{})
		},
		"an event's type":     func(a *Alloc) { last(a).Type += "x" },
		"an event's message":  func(a *Alloc) { last(a).Message += "x" },
		"what an event shows": func(a *Alloc) { last(a).DisplayMessage += "x" },
		"an event's details":  func(a *Alloc) { last(a).Details = map[string]string{"more": "x", text + "x": "x"} },
		"a detail":            func(a *Alloc) { last(a).Details["x"] = text + "x" },
		"details": func(a *Alloc) {
			last(a).Details = map[string]string{"more": "x"}
			for k, v := range many {
				last(a).Details[k] = v
			}
		},
	} {
		a := full()
		edit(a)
		err := a.CheckReport()
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "alloc a") {
			t.Errorf("%s: %.300v", name, err)
		} else if len(err.Error()) > 1000 {
			t.Errorf("%s: the refusal has %d bytes", name, len(err.Error()))
		}
	}
}

// TestWhatAgentsReportIsTaken: whatever the record of an alloc holds, what an agent makes of it is within the bounds of
// the servers, and the record stays as it is; of a long text the beginning and the end are left, of events the newest.
func TestWhatAgentsReportIsTaken(t *testing.T) {
	long := "begins" + strings.Repeat("ü", MaxReportedText) + "ends"
	event := &TaskEvent{
		Type:           EventDriverFailure,
		Message:        long,
		DisplayMessage: "x" + long,
		Details:        map[string]string{"signal": long, "short": "x"},
	}
	state := &TaskState{State: TaskDead, Failed: true}
	for i := range MaxEvents {
		state.Events = append(state.Events, &TaskEvent{Type: fmt.Sprint(i)})
	}
	state.Events = append(state.Events, event)
	record := state.Events
	a := &Alloc{
		ID:                "a",
		ClientStatus:      ClientFailed,
		ClientDescription: long,
		TaskStates:        map[string]*TaskState{"web": state, "db": {State: TaskPending}},
	}
	a.Bound()
	if err := a.CheckReport(); err != nil {
		t.Fatal(err)
	}
	if len(record) != MaxEvents+1 || record[MaxEvents] != event || event.Message != long ||
		event.Details["signal"] != long {
		t.Error("the record is another now")
	}
	events := a.TaskStates["web"].Events
	got := events[len(events)-1]
	if len(events) != MaxEvents || events[0].Type != "1" || got.Type != EventDriverFailure ||
		got.Details["short"] != "x" {
		t.Errorf("%d events: %+v … %+v", len(events), events[0], got)
	}
	for name, text := range map[string]string{"description": a.ClientDescription, "message": got.Message,
		"what is shown": strings.TrimPrefix(got.DisplayMessage, "x"), "detail": got.Details["signal"]} {
		if !strings.HasPrefix(text, "beginsü") || !strings.HasSuffix(text, "üends") || !utf8.ValidString(text) ||
			len(text) > maxSaid {
			t.Errorf("%s: %d bytes, %.20q", name, len(text), text)
		}
	}
	if s := abridged(strings.Repeat("x", maxSaid)); len(s) != maxSaid || strings.Contains(s, "…") {
		t.Error("what is not too long is abridged")
	}
}
