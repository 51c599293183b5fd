package port

// mergeEvent adds an event to a list that holds at most one per port.
func mergeEvent(list []Event, ev Event) []Event {
	for i := range list {
		if list[i].ID == ev.ID {
			list[i].In = list[i].In || ev.In
			list[i].Out = list[i].Out || ev.Out
			return list
		}
	}
	return append(list, ev)
}
