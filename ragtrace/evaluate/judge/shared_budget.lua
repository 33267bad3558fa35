-- One request of a process: settlements that wait, and one reservation. Returns the
-- window that has no room for the reservation (or ''), how many reservations are open, and start and sum of each window.
-- Times are in seconds, money in billionths of a dollar; sums below 9 million dollars are exact.

local key, request = KEYS[1], cjson.decode(ARGV[1])
local clock = redis.call('TIME')
local seconds = tonumber(clock[1])
local now = seconds + tonumber(clock[2]) / 1000000
local windows = {}
for _, window in ipairs(request.windows) do
  local start = seconds - seconds % window.seconds
  windows[#windows + 1] = {kind = window.kind, limit = window.limit, seconds = window.seconds, start = start,
                           field = window.kind .. ':' .. string.format('%d', start)}
end

local function sum(field) return tonumber(redis.call('HGET', key, field) or '0') end
local function add(field, nano) redis.call('HINCRBY', key, field, string.format('%.0f', nano)) end
local function add_to(fields, nano) for _, field in ipairs(fields) do add(field, nano) end end

-- Gives back what is set aside for requests that must have ended: their processes died. Returns how many are open.
local function release_expired()
  local open, all = 0, redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 5) == 'open:' then
      local held = cjson.decode(all[i + 1])
      if held.expires <= now then
        redis.call('HDEL', key, all[i])
        add_to(held.fields, -held.nano)
      else
        open = open + 1
      end
    end
  end
  return open
end

local function remove_old_windows()
  for _, field in ipairs(redis.call('HKEYS', key)) do
    for _, window in ipairs(windows) do
      local start = string.match(field, '^' .. window.kind .. ':(%d+)$')
      -- The window before the present one stays: late settlements belong to it.
      if start and tonumber(start) < window.start - window.seconds then redis.call('HDEL', key, field) end
    end
  end
end

local function settle(reserved)
  local field = 'open:' .. reserved.id
  local value = redis.call('HGET', key, field)
  local held = value and cjson.decode(value)
  if held and held.owner == reserved.owner then
    redis.call('HDEL', key, field)
    add_to(reserved.fields, reserved.cost - held.nano)
  else -- it has expired, or a redelivered message has taken it over: this money was spent all the same
    add_to(reserved.fields, reserved.cost)
  end
end

-- The first window without room, or nil. `own` is what the same request has set aside already.
local function first_full(nano, own)
  for _, window in ipairs(windows) do
    local held = (own and own[window.field]) or 0
    if window.limit and window.limit >= 0 and sum(window.field) - held + nano > window.limit then return window.kind end
  end
  return nil
end

local function reserve(reserved)
  local field = 'open:' .. reserved.id
  local value = redis.call('HGET', key, field)
  local held, own = value and cjson.decode(value), {}
  if held then for _, name in ipairs(held.fields) do own[name] = held.nano end end
  local full, open = first_full(reserved.nano, own), 1
  if full then
    open = release_expired()
    if redis.call('HEXISTS', key, field) == 0 then held, own = nil, {} end
    full = first_full(reserved.nano, own)
  end
  if full then return full, open end
  if held then add_to(held.fields, -held.nano) end
  local fields = {}
  for i, window in ipairs(windows) do fields[i] = window.field end
  add_to(fields, reserved.nano)
  redis.call('HSET', key, field, cjson.encode({owner = reserved.owner, nano = reserved.nano, fields = fields,
                                               expires = now + reserved.seconds}))
  return nil, open
end

local full, open = nil, 0
-- A store that has lost its data learns what the processes have seen.
for field, nano in pairs(request.seen) do
  for _, window in ipairs(windows) do
    if window.field == field then redis.call('HSETNX', key, field, string.format('%.0f', nano)) end
  end
end
if redis.call('HEXISTS', key, windows[1].field) == 0 then
  release_expired()
  remove_old_windows()
  redis.call('HSETNX', key, windows[1].field, '0')
end
for _, reserved in ipairs(request.settle) do settle(reserved) end
if request.reserve then full, open = reserve(request.reserve) end
redis.call('EXPIRE', key, 2 * windows[#windows].seconds)
local reply = {full or '', open}
for _, window in ipairs(windows) do
  reply[#reply + 1] = window.start
  reply[#reply + 1] = sum(window.field)
end
return reply
