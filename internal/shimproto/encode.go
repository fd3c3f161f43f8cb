package shimproto

func (m *Hello) encode(e *Encoder) { e.Int(1, int64(m.Min)); e.Int(2, int64(m.Max)) }

func (m *Hello) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Min = int(v.Int())
		case 2:
			m.Max = int(v.Int())
		}
		return nil
	})
}

func (m *HelloReply) encode(e *Encoder) {
	e.Int(1, int64(m.Version))
	e.Int(2, int64(m.PID))
	e.Int(3, int64(m.Start))
	e.Text(4, m.Alloc)
}

func (m *HelloReply) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Version = int(v.Int())
		case 2:
			m.PID = int(v.Int())
		case 3:
			m.Start = uint64(v.Int())
		case 4:
			m.Alloc = v.Text()
		}
		return nil
	})
}

func (m *Named) encode(e *Encoder) { e.Text(1, m.Name) }

func (m *Named) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		if field == 1 {
			m.Name = v.Text()
		}
		return nil
	})
}

func (m *Launched) encode(e *Encoder) { e.Int(1, int64(m.PID)); e.Text(2, m.Cgroup) }

func (m *Launched) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.PID = int(v.Int())
		case 2:
			m.Cgroup = v.Text()
		}
		return nil
	})
}

func (m *Signal) encode(e *Encoder) { e.Text(1, m.Name); e.Int(2, int64(m.Number)) }

func (m *Signal) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Name = v.Text()
		case 2:
			m.Number = int(v.Int())
		}
		return nil
	})
}

func (m *Kill) encode(e *Encoder) { e.Text(1, m.Name); e.Int(2, int64(m.Number)); e.Int(3, m.Grace) }

func (m *Kill) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Name = v.Text()
		case 2:
			m.Number = int(v.Int())
		case 3:
			m.Grace = v.Int()
		}
		return nil
	})
}

func (m *Exit) encode(e *Encoder) {
	e.Int(1, int64(m.Code))
	e.Int(2, int64(m.Signal))
	e.Bool(3, m.OOM)
	e.Text(4, m.Err)
	e.Int(5, m.Ended)
	e.Int(6, m.LogLost)
}

func (m *Exit) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Code = int(v.Int())
		case 2:
			m.Signal = int(v.Int())
		case 3:
			m.OOM = v.Bool()
		case 4:
			m.Err = v.Text()
		case 5:
			m.Ended = v.Int()
		case 6:
			m.LogLost = v.Int()
		}
		return nil
	})
}

func (m *Forgotten) encode(e *Encoder) { e.Bool(1, m.Last) }

func (m *Forgotten) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		if field == 1 {
			m.Last = v.Bool()
		}
		return nil
	})
}

func (m *Exec) encode(e *Encoder) {
	e.Text(1, m.Name)
	e.List(2, m.Argv)
	e.Bool(3, m.TTY)
	e.Int(4, int64(m.Height))
	e.Int(5, int64(m.Width))
}

func (m *Exec) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Name = v.Text()
		case 2:
			m.Argv = append(m.Argv, v.Text())
		case 3:
			m.TTY = v.Bool()
		case 4:
			m.Height = int(v.Int())
		case 5:
			m.Width = int(v.Int())
		}
		return nil
	})
}

func (m *Resize) encode(e *Encoder) { e.Int(1, int64(m.Height)); e.Int(2, int64(m.Width)) }

func (m *Resize) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Height = int(v.Int())
		case 2:
			m.Width = int(v.Int())
		}
		return nil
	})
}

func (m *Stats) values() []*int64 {
	return []*int64{&m.CPUNanos, &m.UserNanos, &m.SystemNanos, &m.ThrottledNanos, &m.RSS, &m.Cache, &m.Usage, &m.Max, &m.PIDs}
}

func (m *Stats) encode(e *Encoder) {
	for i, v := range m.values() {
		e.Int(i+1, *v)
	}
}

func (m *Stats) decode(b []byte) error {
	values := m.values()
	return fields(b, func(field int, v Value) error {
		if field <= len(values) {
			*values[field-1] = v.Int()
		}
		return nil
	})
}

func (m *List) encode(e *Encoder) {
	for i := range m.Entries {
		e.Message(1, &m.Entries[i])
	}
}

func (m *List) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		if field != 1 {
			return nil
		}
		var entry Entry
		if err := entry.decode(v); err != nil {
			return err
		}
		m.Entries = append(m.Entries, entry)
		return nil
	})
}

func (m *Entry) encode(e *Encoder) {
	e.Text(1, m.Name)
	e.Text(2, m.Task)
	e.Int(3, int64(m.PID))
	e.Text(4, m.Cgroup)
	e.Bool(5, m.Ended)
	e.Int(6, m.LogLost)
	e.Text(7, m.LogError)
}

func (m *Entry) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Name = v.Text()
		case 2:
			m.Task = v.Text()
		case 3:
			m.PID = int(v.Int())
		case 4:
			m.Cgroup = v.Text()
		case 5:
			m.Ended = v.Bool()
		case 6:
			m.LogLost = v.Int()
		case 7:
			m.LogError = v.Text()
		}
		return nil
	})
}
