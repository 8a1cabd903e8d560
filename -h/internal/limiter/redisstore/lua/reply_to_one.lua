add_decision(remaining, reset_after, wait, at)
if problem then reply[size + 1] = problem == 'ahead' and -1 or 0 end
return reply
